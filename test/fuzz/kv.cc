// The target of merge operands: two of them (strings) and the value that they change.
#include <algorithm>

#include "fuzz/target.h"
#include "kv/patch.h"

namespace lsmfs::fuzz {
namespace {

using kv::Patch;

// The planted fault: a length is believed before it has been checked.
std::optional<Patch> decode_with_room_for_all(std::string_view operand) {
  Reader in(operand);
  in.u8();
  in.varint();
  in.varint();
  std::vector<std::pair<std::uint32_t, std::string>> segments;
  segments.reserve(in.varint());
  return Patch::decode(operand);
}

std::optional<Patch> decode(std::string_view operand) {
  const auto patch = planted == Planted::length_believed ? decode_with_room_for_all(operand) : Patch::decode(operand);
  if (patch) check(Patch::decode(patch->encode()) == patch, "what was encoded decodes to something else");
  return patch;
}

std::string applied(const Patch& patch, std::string value) {
  const std::size_t most = std::max<std::size_t>(value.size(), kv::kPatchEndMax);
  patch.apply(value);
  check(value.size() <= most, "a value grows beyond what a patch may make of it");
  return value;
}

bool run_patch(std::string_view input) {
  Reader in(input);
  const auto first = decode(in.string()), second = decode(in.string());
  if (!in.ok() || !first || !second) return false;
  const std::string value(in.rest());
  Patch both = *first;
  both.then(*second);
  check(Patch::decode(both.encode()) == both, "two patches in one cannot be decoded");
  check(applied(both, value) == applied(*second, applied(*first, value)), "two patches in one do something else");
  return true;
}

std::vector<std::string> patch_examples() {
  Patch several = Patch::overwrite(10, "abc");
  several.then(Patch::overwrite(100, std::string(50, 'x')));
  several.then(Patch::overwrite(4000, "end"));
  Patch shorter = Patch::overwrite(0, "0123456789");
  shorter.then(Patch::cut(5));
  const std::vector<Patch> patches{Patch::overwrite(0, "a"), Patch::cut(0), Patch::cut(4095), several, shorter};
  std::vector<std::string> all;
  for (const Patch& first : patches) {
    for (const Patch& second : patches) {
      std::string input;
      put_string(input, first.encode());
      put_string(input, second.encode());
      all.push_back(input + std::string(200, 'v'));
    }
  }
  return all;
}

}  // namespace

const Target kPatch{"patch", run_patch, patch_examples, 1024, 256, 200'000};

}  // namespace lsmfs::fuzz
