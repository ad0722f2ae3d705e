// The forms in which changes go from the daemon to who asks, and those of a token.
#include <fmt/format.h>

#include <charconv>

#include "lsmfs/changes.h"

namespace lsmfs {
namespace {

constexpr std::string_view kTokenBegin = "lsmfs1";
constexpr std::uint8_t kHasSince = 1;
constexpr std::uint8_t kEverything = 1, kEnded = 2;

// Lest a token that lost a digit, or got another one, stands for another moment.
std::uint32_t check_of(std::string_view text) { return static_cast<std::uint32_t>(checksum(text)); }

}  // namespace

std::string text_of(const ChangesToken& token) {
  const std::string text = fmt::format("{}-{:016x}-{:x}", kTokenBegin, token.log, token.position);
  return fmt::format("{}-{:08x}", text, check_of(text));
}

std::optional<ChangesToken> token_of(std::string_view text) {
  const std::size_t last = text.rfind('-');
  if (last == text.npos || !text.starts_with(kTokenBegin)) return std::nullopt;
  const std::size_t middle = text.rfind('-', last - 1);
  if (middle == text.npos || middle < kTokenBegin.size() + 1) return std::nullopt;
  const auto number = [](std::string_view digits) {
    std::uint64_t value = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    return failed == std::errc() && end == digits.data() + digits.size() ? std::optional(value) : std::nullopt;
  };
  const auto log = number(text.substr(kTokenBegin.size() + 1, middle - kTokenBegin.size() - 1));
  const auto position = number(text.substr(middle + 1, last - middle - 1));
  if (!log || !position) return std::nullopt;
  const ChangesToken token{*log, *position};
  return text_of(token) == text ? std::optional(token) : std::nullopt;
}

std::string encode(const ChangesAsked& asked) {
  std::string out;
  put_u8(out, asked.since ? kHasSince : 0);
  put_le64(out, asked.since ? asked.since->log : 0);
  put_varint(out, asked.since ? asked.since->position : 0);
  put_varint(out, asked.before);
  put_varint(out, asked.skip);
  return out;
}

std::optional<ChangesAsked> decode_changes_asked(std::string_view bytes) {
  Reader in(bytes);
  const std::uint8_t has = in.u8();
  ChangesToken since;
  since.log = in.le64();
  since.position = in.varint();
  ChangesAsked asked;
  asked.before = in.varint();
  asked.skip = in.varint();
  if (!in.ok() || !in.at_end() || has > kHasSince) return std::nullopt;
  if (has == kHasSince) asked.since = since;
  return asked;
}

std::string encode(const ChangesStep& step) {
  std::string out;
  put_u8(out, static_cast<std::uint8_t>((step.everything ? kEverything : 0) | (step.ended ? kEnded : 0)));
  put_le64(out, step.now.log);
  put_varint(out, step.now.position);
  put_varint(out, step.before);
  put_varint(out, step.skip);
  for (const std::string& path : step.paths) put_string(out, path);
  return out;
}

std::optional<ChangesStep> decode_changes_step(std::string_view bytes) {
  Reader in(bytes);
  ChangesStep step;
  const std::uint8_t flags = in.u8();
  step.everything = (flags & kEverything) != 0;
  step.ended = (flags & kEnded) != 0;
  step.now.log = in.le64();
  step.now.position = in.varint();
  step.before = in.varint();
  step.skip = in.varint();
  while (in.ok() && !in.at_end()) step.paths.emplace_back(in.string());
  if (!in.ok() || flags > (kEverything | kEnded)) return std::nullopt;
  return step;
}

}  // namespace lsmfs
