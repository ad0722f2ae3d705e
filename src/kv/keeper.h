// kv/keeper: one thread for the store's own background work: flushes that free the log, compactions of what was erased
// (kv/erased says when, kv/sinking how), and of what is obsolete otherwise when somebody waits for space.
//
// Threads: all functions, from any thread; they do not block but stop() and finish(). Locks: mutex_ is a leaf.
#pragma once

#include <rocksdb/db.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kv/batch.h"
#include "kv/erased.h"
#include "kv/fail_stop.h"
#include "kv/sinking.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class Keeper {
 public:
  // First and last key of blocks over whose tables others are best merged when space is short; nothing: no table lies over others.
  using Worst = std::function<std::optional<std::pair<std::string, std::string>>()>;
  // `worth`: see Erased. `flushed` is called after each flush, `space_changed` when tables that it waits for have come and gone.
  // `targets`: what tables are to hold, by family number. `measure`: see measure_at().
  Keeper(const FailStop& fail_stop, Clock& clock, std::uint64_t worth, std::array<std::uint64_t, 2> targets, std::function<void()> flushed,
         std::function<void()> space_changed, Worst worst, std::function<void()> measure)
      : fail_stop_(fail_stop), clock_(clock), targets_(targets), flushed_(std::move(flushed)), space_changed_(std::move(space_changed)),
        worst_(std::move(worst)), measure_(std::move(measure)), erased_(worth) {}
  ~Keeper() { stop(); }

  void start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
  void stop();  // what it has not come to the end of, and requests that come afterwards, wait for another start()

  // Before the store is closed, when space is short: compacts what was erased, now, and waits for that as long as it goes on.
  // Without it that is left to the next start: tables tell how much their tombstones cover, roughly.
  void finish();

  void want_flush();
  // Somebody waits for space: what was erased is compacted now. When nothing was, and RocksDB finds nothing to do, what is worst.
  void want_space();
  void want_fewer_tables();  // small ones are merged (kv/small_tables)
  void want_less_memory();   // gaps in the heap go back to the system
  void note_passed(Family family, std::string_view from, std::string_view to, std::uint64_t rows);  // Erased::passed()
  void note(const std::vector<ErasedRange>& ranges, const ErasedRows (&rows)[2]);  // by family number
  void tables_changed();  // from RocksDB's threads
  void measure_at(Clock::Time due);  // then, or earlier if it was asked for that before

  bool idle() const;  // nothing is under way; what rests does so

 private:
  void run();
  void flush();
  void sink(Erased::Work work, std::uint64_t sequence);
  void make_space();
  bool merge_small_tables();  // false: there were none

  const FailStop& fail_stop_;
  Clock& clock_;
  const std::array<std::uint64_t, 2> targets_;
  const std::function<void()> flushed_, space_changed_;
  const Worst worst_;
  const std::function<void()> measure_;
  rocksdb::DB* db_ = nullptr;
  rocksdb::ColumnFamilyHandle* handles_[2] = {};

  mutable Mutex mutex_;
  std::condition_variable wake_;
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  bool busy_ LSMFS_GUARDED_BY(mutex_) = false;  // its thread has taken requests that it has not come to the end of
  std::condition_variable idle_;
  bool want_flush_ LSMFS_GUARDED_BY(mutex_) = false, want_space_ LSMFS_GUARDED_BY(mutex_) = false, want_end_ LSMFS_GUARDED_BY(mutex_) = false;
  bool want_fewer_ LSMFS_GUARDED_BY(mutex_) = false, want_less_ LSMFS_GUARDED_BY(mutex_) = false;
  bool tables_changed_ LSMFS_GUARDED_BY(mutex_) = false;
  std::uint64_t changes_ LSMFS_GUARDED_BY(mutex_) = 0;  // of tables
  Clock::Time measure_due_ LSMFS_GUARDED_BY(mutex_) = Clock::kNever;
  Erased erased_ LSMFS_GUARDED_BY(mutex_);
  bool sinks_ LSMFS_GUARDED_BY(mutex_) = false;  // something does
  Sinking sinking_;  // of its thread
  std::thread thread_;
};

}  // namespace lsmfs::kv
