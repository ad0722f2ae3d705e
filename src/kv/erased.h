// kv/erased: what was erased and takes space still, and when it is to be compacted.
//
// RocksDB does not see that by itself. A range tombstone costs every later reader until it is flushed, and a compaction has only an
// estimate of what it covers. So after kRangesToFlush of them, when their rows may hold `worth` bytes, or kRest after the first, what
// they lie over is compacted. And erased rows take space until their tombstones have sunk to the last level: when those that were erased
// may hold `worth` bytes, or half of that for kRest, the range they lie in is compacted. So what a user deletes comes back soon.
// And who walks over what is erased takes time for it each time: where readers have passed over kPassedToCompact erased rows, they are
// compacted, too, which takes about as long as those walks have taken in vain.
// What it is not: the one who compacts, which is Keeper. It reads no clock. Not thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "kv/batch.h"
#include "lsmfs/clock.h"

namespace lsmfs::kv {

inline constexpr std::size_t kRangesToFlush = 500;
inline constexpr std::uint64_t kPassedToCompact = 500'000;

class Erased {
 public:
  static constexpr auto kRest = std::chrono::seconds(10);

  struct Work {
    std::vector<ErasedRange> ranges;
    ErasedRows rows[2];  // by family number
    bool empty() const { return ranges.empty() && rows[0].rows + rows[1].rows == 0; }
  };

  explicit Erased(std::uint64_t worth) : worth_(worth) {}

  void note(const std::vector<ErasedRange>& ranges, const ErasedRows (&rows)[2], Clock::Time now);
  // A reader has passed over so many rows of a family that are erased, all between these two keys.
  void passed(Family family, std::string_view from, std::string_view to, std::uint64_t rows);
  // From then on take() gives something; kNever: while nothing more is noted it never will.
  Clock::Time due() const;
  // What is to be compacted now.
  Work take(Clock::Time now);
  Work take_all();

 private:
  bool rows_hold(std::uint64_t bytes) const;
  bool resting() const { return !work_.ranges.empty() || rows_hold(worth_ / 2); }
  bool many_ranges() const;
  bool many_rows() const { return rows_hold(worth_); }
  void rest(Clock::Time now);

  const std::uint64_t worth_;
  Work work_;
  static constexpr std::size_t kPlaces = 32;
  std::vector<ErasedRange> passed_;  // where readers have passed over so many rows
  bool many_passed_ = false;         // over kPassedToCompact in one of them
  Clock::Time rested_ = Clock::kNever;  // when what rests has rested; kNever: nothing does
};

}  // namespace lsmfs::kv
