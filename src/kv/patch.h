// kv/patch: blind changes of a value (overwrite a part, cut the end) as RocksDB merge operands.
//
// Any sequence of patches and cuts is the same as one Patch in a normal form:
//   1. drop what lies past the first `keep` bytes of the old value,
//   2. lengthen it with zeros to at least `least` bytes,
//   3. overwrite it with `segments`, which are disjoint, in order, and end at or before `least`.
// Two normal forms combine into one, which is what makes merging associative.
//
// Operand: u8 version 1 | varint keep + 1, 0 for "all" | varint least | varint segment count |
//   for each segment: varint gap since the end of the one before | varint length | bytes.
// Operands come from disk: decode() checks all of it.
// Threads: values; the merge operator has no state.
#pragma once

#include <rocksdb/merge_operator.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs::kv {

// The most that a patch may make of a value: bounds what a damaged operand can ask for.
inline constexpr std::uint32_t kPatchEndMax = 64 * 1024;

class Patch {
 public:
  static Patch overwrite(std::uint32_t offset, std::string_view bytes);
  static Patch cut(std::uint32_t length);
  static std::optional<Patch> decode(std::string_view operand);

  std::string encode() const;
  // Makes this "first *this, then `later`".
  void then(const Patch& later);
  void apply(std::string& value) const;

  bool operator==(const Patch&) const = default;

 private:
  struct Segment {
    std::uint32_t offset;
    std::string bytes;
    std::uint32_t end() const { return offset + static_cast<std::uint32_t>(bytes.size()); }
    bool operator==(const Segment&) const = default;
  };
  void limit(std::uint32_t length);
  void insert(std::uint32_t offset, std::string_view bytes);

  std::optional<std::uint32_t> keep_;
  std::uint32_t least_ = 0;
  std::vector<Segment> segments_;
};

std::shared_ptr<rocksdb::MergeOperator> make_patch_operator();

// How many values this thread has made of patches alone: nothing lay under them in what it read.
std::uint64_t patches_of_nothing_by_this_thread();

}  // namespace lsmfs::kv
