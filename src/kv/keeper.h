// kv/keeper: one thread for the store's own background work: flushes that free the log, and what
// range deletions need.
//
// RocksDB does not see some things by itself. A range tombstone costs every later reader until it is
// flushed, and compaction has only an estimate of what it covers. So after kRangesToFlush of them, or some
// seconds after the first, their family is flushed and what they lie over is compacted. And erased
// rows take space until their tombstones have sunk to the last level: when those erased since the
// last time may hold `worth` bytes, or half of that for some seconds, the range they lie in is compacted,
// so that what a user deletes comes back as free space soon.
// Threads: all functions, from any thread; they do not block. Locks: mutex_ is a leaf.
#pragma once

#include <rocksdb/db.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "kv/batch.h"
#include "kv/fail_stop.h"

namespace lsmfs::kv {

inline constexpr std::size_t kRangesToFlush = 500;

class Keeper {
 public:
  // Compacts in pieces of `piece` bytes. `flushed` is called after each flush.
  Keeper(const FailStop& fail_stop, std::uint64_t worth, std::uint64_t piece, std::function<void()> flushed,
         std::function<void()> space_changed)
      : fail_stop_(fail_stop), worth_(worth), piece_(piece), flushed_(std::move(flushed)), space_changed_(std::move(space_changed)) {}
  ~Keeper() { stop(); }

  void start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
  void stop();  // ends what it is doing; that, and requests that come afterwards, wait for another start()

  // Before the store is closed, when space is short: compacts what was erased, now, and waits for what is being compacted
  // already. Without it that is left to the next start: tables tell how much their tombstones cover, roughly.
  void finish();

  void want_flush();
  void note_ranges(const std::vector<ErasedRange>& ranges);
  void note_rows(Family family, const ErasedRows& rows);

 private:
  void run();
  void flush();
  void flush_if_wanted();
  bool compact(Family family, const std::string& from, const std::string& to);
  // False: something went wrong, and what is left to do is noted again.
  bool reclaim(std::vector<ErasedRange> ranges, ErasedRows (&rows)[2]);
  bool rows_hold(std::uint64_t bytes) const;

  const FailStop& fail_stop_;
  const std::uint64_t worth_, piece_;
  const std::function<void()> flushed_, space_changed_;
  rocksdb::DB* db_ = nullptr;
  rocksdb::ColumnFamilyHandle* handles_[2] = {};

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool busy_ = false;  // its thread has taken requests that it has not come to the end of
  std::condition_variable idle_;
  bool want_flush_ = false;
  std::vector<ErasedRange> ranges_;
  ErasedRows rows_[2];  // by family number
  std::thread thread_;
};

}  // namespace lsmfs::kv
