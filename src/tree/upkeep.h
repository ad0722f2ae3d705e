// Upkeep: what the tree's own thread has to do, and when. It is told what happens, and asked what is due.
//
//   sync        a change becomes durable before it is as old as the sync interval
//   store_sync  much has been committed: it becomes durable at once, or a commit that fills a memtable would wait for all of it
//   note        a sync is noted in the store an interval later, unless another one says the same
//   relocation  what a rename left behind moves a while after it
//   sweep       what was removed with a directory is taken away a moment after it, and others have as much time in between
//
// What it is not: a thread; and it reads no clock. An interval of 0 is that of a tree in which nothing is done by itself; sweeps ask for none.
// Not thread-safe: the tree's mutex guards it.
#pragma once

#include <optional>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"

namespace lsmfs {

class Upkeep {
 public:
  using Time = Clock::Time;
  using Duration = Clock::Duration;

  static constexpr std::size_t kMuch = 16 * MiB;
  // So long after a rename, and after a relocation this many times what it took, comes the next.
  static constexpr std::chrono::milliseconds kRelocationDelay{1000};
  static constexpr int kRelocationPause = 4;
  // The kernel lets go of most of what it knows of a removed tree, and then less has to be kept for it.
  static constexpr std::chrono::milliseconds kSweepDelay{100};
  static constexpr int kSweepPause = 1;

  // ---- what happens
  bool is_dirty() const { return dirty_since_.has_value(); }  // something has changed since a sync last began
  void changed(Time now);
  void committed(std::size_t bytes) { unsynced_ += bytes; }
  void sync_began();  // of all that has changed
  void synced(Time now);
  void displaced(Time now);
  void relocated(Time began, Time ended, bool more);
  void removed_tree(Time now);
  void swept(Time began, Time ended, bool more);

  // ---- what is due
  struct Due {
    bool sync = false, store_sync = false, note = false, relocation = false;
  };
  // What is due now. It is the caller's to do, and he says so above.
  Due take(Time now, Duration interval);
  // When something is due; kNever: not before something happens.
  Time next(Duration interval) const;
  // When a sweep is, likewise, which the two above leave out.
  Time next_sweep() const { return sweep_at_.value_or(Clock::kNever); }

 private:
  bool has_much() const { return unsynced_ >= kMuch; }
  // The sync itself takes a while: it begins early, so that nothing is older than the interval.
  static Duration sync_age(Duration interval) { return interval * 4 / 5; }

  std::optional<Time> dirty_since_;    // the oldest change not synced
  std::optional<Time> unnoted_since_;  // the oldest sync that is not noted in the store
  std::optional<Time> relocate_at_, sweep_at_;
  std::size_t unsynced_ = 0;           // bytes committed since a sync last began
};

}  // namespace lsmfs
