// kv/pace: writers that are ahead of the flushes are slowed down, before they would have to stop.
//
// A flush frees nothing until it ends, and then a whole memtable. Who writes faster than that would write at full speed, stop for
// as long as a flush takes, and so on. So how far writers are ahead is known between the ends of flushes as well, from how fast the
// last one was; and the more it is, the longer each commit takes. The same goes for space that only the end of a merge brings back:
// the less there is to spare, the longer each commit takes. What it is not: a bound. That is SpaceGauge's, and this may err.
//
// Threads: all functions, from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

class Pace {
 public:
  // What lies in the memtables of a family; `waiting` of it will not grow. A memtable is full at `full`.
  struct Backlog {
    std::uint64_t bytes = 0, waiting = 0, full = 1;
  };
  void measured(Family family, const Backlog& backlog);

  // One of a family's, in one thread from beginning to end; `bytes` are those of its rows.
  void flush_begins(Family family, Clock::Time now);
  void flush_ended(Family family, std::uint64_t bytes, Clock::Time now);

  // How much more may be committed before commits have to wait for merging, on a volume of so many bytes for tables; and how long
  // a merge took that has brought some back.
  void space(std::uint64_t spare, std::uint64_t total);
  void merged(Clock::Duration took);

  // Until when the commit of `bytes` is to wait; `now`: not at all. Each waits for the time of those before it, also of other
  // threads, and kLongest at most counts for one.
  Clock::Time due(std::uint64_t bytes, Clock::Time now);

  // Writers are let go at kFast times the speed of a flush when they are kFree memtables ahead of it, at kSlow times kTight ahead,
  // between them in between, and never slower. Less ahead: as fast as they can.
  static constexpr double kFree = 0.75, kTight = 1.75, kFast = 2, kSlow = 0.5;
  static constexpr auto kLongest = std::chrono::milliseconds(25);
  // With less than this part of the volume to spare, writers take the time of a merge for it.
  static constexpr std::uint64_t kSpare = 16;

 private:
  struct Side {
    std::atomic<std::uint64_t> bytes{0}, waiting{0}, full{1};
    std::atomic<Clock::Time> began{};  // of the flush under way; its default: none is
    std::atomic<double> speed{0};            // of flushes, in bytes a ns; 0: none has been
  };
  // In memtables, as far as can be told.
  double ahead(const Side& side, Clock::Time now) const;
  double ns_per_byte(const Side& side, Clock::Time now) const;  // of a commit

  std::array<Side, 2> sides_;
  std::atomic<double> spare_ns_per_byte_{0}, merge_ns_{0};
  std::atomic<Clock::Time> next_{};  // when the last commit's share of time ends
};

}  // namespace lsmfs::kv
