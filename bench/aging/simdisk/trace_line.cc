#include "simdisk/trace_line.h"

#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <limits>

namespace lsmfs::simdisk {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr int kDecimals = 9;

// The next word of `rest`, which loses it and one space.
std::string_view take_word(std::string_view& rest) {
  const auto space = std::min(rest.find(' '), rest.size());
  const std::string_view word = rest.substr(0, space);
  rest.remove_prefix(std::min(space + 1, rest.size()));
  return word;
}

std::optional<std::uint64_t> number(std::string_view word) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<Nanos> seconds(std::string_view word) {
  const auto point = word.find('.');
  const auto whole = number(word.substr(0, point));
  // One second less than fits, so that the decimals never do not.
  if (!whole || *whole >= std::numeric_limits<std::int64_t>::max() / kSecond) return std::nullopt;
  std::int64_t nanos = static_cast<std::int64_t>(*whole) * kSecond;
  if (point == std::string_view::npos) return Nanos(nanos);
  const std::string_view decimals = word.substr(point + 1);
  const auto fraction = number(decimals);
  if (!fraction || decimals.size() > kDecimals) return std::nullopt;
  auto part = static_cast<std::int64_t>(*fraction);
  for (auto digits = decimals.size(); digits < kDecimals; ++digits) part *= 10;
  return Nanos(nanos + part);
}

Error not_a_line(std::string_view what) { return make_error(EINVAL, std::string(what)); }

}  // namespace

void append_line(std::string& out, const TraceEntry& entry) {
  const auto time = entry.time.count(), service = entry.service.count();
  fmt::format_to(std::back_inserter(out), "{}.{:09} {} {} {} {}.{:09}\n", time / kSecond, time % kSecond,
                 letter_of(entry.request.kind), entry.request.offset.v, entry.request.length.v, service / kSecond,
                 service % kSecond);
}

Result<std::optional<TraceEntry>> parse_line(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::optional<TraceEntry>();
  const auto time = seconds(take_word(line));
  if (!time) return not_a_line("does not begin with seconds");
  const std::string_view letter = take_word(line);
  const auto kind = letter.size() == 1 ? kind_of(letter.front()) : std::nullopt;
  if (!kind) return not_a_line("the second word is not R, W, F or D");
  const auto offset = number(take_word(line)), length = number(take_word(line));
  if (!offset || !length || *length > std::numeric_limits<std::uint64_t>::max() - *offset) {
    return not_a_line("the third and fourth word are not an offset and a number of bytes");
  }
  std::optional<Nanos> service = Nanos(0);
  if (!line.empty()) service = seconds(take_word(line));
  if (!service || !line.empty()) return not_a_line("after the bytes there is more than seconds of service");
  return std::optional(TraceEntry{*time, {*kind, ByteOffset{*offset}, ByteCount{*length}}, *service});
}

}  // namespace lsmfs::simdisk
