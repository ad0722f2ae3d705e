// The forms in which differences go from the daemon to who asks.
#include "lsmfs/differences.h"

namespace lsmfs {
namespace {

constexpr std::uint8_t kHasA = 1, kHasB = 2, kExact = 4, kOnlyLinked = 8, kOnlyData = 16;
constexpr std::uint8_t kDifferencesEnded = 1, kHasBlocks = 2;
constexpr std::uint8_t kKinds = 4, kWasDirectory = 4, kIsDirectory = 8;  // in one byte: the kind below

}  // namespace

std::string encode(const DifferencesAsked& asked) {
  std::string out;
  put_u8(out, static_cast<std::uint8_t>((asked.a ? kHasA : 0) | (asked.b ? kHasB : 0) | (asked.exact ? kExact : 0) | (asked.only_linked ? kOnlyLinked : 0) |
                                       (asked.only_data ? kOnlyData : 0)));
  put_string(out, asked.a.value_or(""));
  put_string(out, asked.b.value_or(""));
  put_string(out, asked.from);
  return out;
}

std::optional<DifferencesAsked> decode_asked(std::string_view bytes) {
  Reader in(bytes);
  const std::uint8_t has = in.u8();
  const std::string_view a = in.string(), b = in.string(), from = in.string();
  if (!in.ok() || !in.at_end() || (has & (kHasA | kHasB)) == 0 || (has & ~(kHasA | kHasB | kExact | kOnlyLinked | kOnlyData))) return std::nullopt;
  DifferencesAsked asked{.a = std::nullopt, .b = std::nullopt, .from = std::string(from)};
  if (has & kHasA) asked.a = a;
  if (has & kHasB) asked.b = b;
  asked.exact = has & kExact;
  asked.only_linked = has & kOnlyLinked;
  asked.only_data = has & kOnlyData;
  return asked;
}

std::string encode(const DifferencesStep& step) {
  std::string out;
  put_u8(out, static_cast<std::uint8_t>((step.ended ? kDifferencesEnded : 0) | (step.same.empty() ? 0 : kHasBlocks)));
  put_string(out, step.next);
  put_varint(out, step.shifts.size());
  for (const std::uint64_t shift : step.shifts) put_varint(out, shift);
  if (!step.same.empty()) put_varint(out, step.same.size());
  for (const SameBlocks& blocks : step.same) {
    put_varint(out, blocks.first.v);
    put_varint(out, blocks.count);
  }
  for (const FoundDifference& each : step.found) {
    put_u8(out, static_cast<std::uint8_t>(static_cast<std::uint8_t>(each.kind) | (each.was_directory ? kWasDirectory : 0) | (each.is_directory ? kIsDirectory : 0)));
    put_varint(out, each.number.v);
    put_varint(out, each.data.v);
    put_string(out, each.path);
  }
  return out;
}

std::optional<DifferencesStep> decode_step(std::string_view bytes) {
  Reader in(bytes);
  DifferencesStep step;
  const std::uint8_t has = in.u8();
  if (has > (kDifferencesEnded | kHasBlocks)) in.fail();
  step.ended = has & kDifferencesEnded;
  step.next = in.string();
  const std::uint64_t shifts = in.varint();
  for (std::uint64_t i = 0; i < shifts && in.ok(); ++i) step.shifts.push_back(in.varint());
  const std::uint64_t same = has & kHasBlocks ? in.varint() : 0;
  for (std::uint64_t i = 0; i < same && in.ok(); ++i) {
    SameBlocks& blocks = step.same.emplace_back();
    blocks.first = BlockIndex{in.varint()};
    blocks.count = in.varint();
  }
  while (in.ok() && !in.at_end()) {
    FoundDifference each;
    const std::uint8_t what = in.u8();
    if (what >= 2 * kIsDirectory) in.fail();
    each.kind = static_cast<FoundDifference::Kind>(what % kKinds);
    each.was_directory = what & kWasDirectory;
    each.is_directory = what & kIsDirectory;
    each.number = Ino{in.varint()};
    each.data = Ino{in.varint()};
    each.path = in.string();
    step.found.push_back(std::move(each));
  }
  if (!in.ok()) return std::nullopt;
  return step;
}

}  // namespace lsmfs
