// Which granules of one region are free. Pure memory: it knows no device, no files, no locks.
//
// Aim: files stay in one piece for years. A request is served by the smallest free run that holds
// all of it; only when there is none is it split, largest runs first.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "volume/format.h"

namespace lsmfs {

class Allocator {
 public:
  enum class End { low, high };  // from which end of the region, and of a run, to take

  Allocator() = default;
  // A region of `length` bytes at `start`, all free; both multiples of `granule`.
  Allocator(std::uint64_t start, std::uint64_t length, std::uint64_t granule);

  // Takes round_up(length, granule) bytes, or nothing at all (nullopt) when less than that is free.
  // Pieces are at least `min_piece` bytes while larger runs are left to choose from.
  std::optional<std::vector<Extent>> allocate(std::uint64_t length, End end, std::uint64_t min_piece);
  // Takes one run of that length, or nothing.
  std::optional<Extent> allocate_run(std::uint64_t length, End end);
  // Takes exactly this range; false when it is not wholly free, or not whole granules of the region.
  bool take(const Extent& extent);
  // False when the range is not wholly in use: nothing changes then.
  bool release(const Extent& extent);
  // The region goes on behind its end, with so many bytes more, all free.
  void grow(std::uint64_t length);

  bool contains(const Extent& extent) const;  // in the region, whole granules
  std::uint64_t granule() const { return granule_; }
  std::uint64_t total() const { return length_; }
  std::uint64_t free() const { return free_; }
  std::uint64_t largest() const { return by_length_.empty() ? 0 : by_length_.rbegin()->first; }
  // The free run that begins at `at`, 0 if none: how far an extent that ends there can grow.
  std::uint64_t free_at(std::uint64_t at) const;
  // The free run that holds `at`, or else the next one after it.
  std::optional<Extent> free_run(std::uint64_t at) const;

 private:
  void insert(std::uint64_t start, std::uint64_t length);
  void erase(std::map<std::uint64_t, std::uint64_t>::iterator run);

  std::uint64_t start_ = 0, length_ = 0, granule_ = 1, free_ = 0;
  std::map<std::uint64_t, std::uint64_t> by_start_;              // free runs: start -> length
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_length_;  // the same: (length, start)
};

}  // namespace lsmfs
