// kv/keeper: one thread for the store's own background work: flushes that free the log, and what
// range deletions need.
//
// RocksDB does not see two things by itself. A range tombstone costs every later reader until it is
// flushed, and compaction does not count what it covers. So after kRangesToFlush of them, or some
// seconds after the last, their family is flushed and the tables they lie over are suggested for
// compaction.
// Threads: all functions, from any thread; they do not block. Locks: mutex_ is a leaf.
#pragma once

#include <rocksdb/db.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "kv/batch.h"
#include "kv/fail_stop.h"

namespace lsmfs::kv {

inline constexpr std::size_t kRangesToFlush = 500;

class Keeper {
 public:
  explicit Keeper(const FailStop& fail_stop) : fail_stop_(fail_stop) {}
  ~Keeper() { stop(); }

  void start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
  void stop();  // waits for what it is doing; afterwards requests are ignored

  void want_flush();
  void note_ranges(const std::vector<ErasedRange>& ranges);

 private:
  void run();
  void flush();
  void suggest(const std::vector<ErasedRange>& ranges);

  const FailStop& fail_stop_;
  rocksdb::DB* db_ = nullptr;
  rocksdb::ColumnFamilyHandle* handles_[2] = {};

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  bool want_flush_ = false;
  std::vector<ErasedRange> ranges_;
  std::thread thread_;
};

}  // namespace lsmfs::kv
