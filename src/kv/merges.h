// kv/merges: the compactions that run, the space that they may need, and whose turn it is.
//
// A compaction writes before it gives something back. Until it ends RocksDB also keeps all tables that there were when it chose
// its own, those that others have replaced meanwhile among them. So one after the other beside a long one gets nothing back either.
// The reserve is made for a merge of level 0 and one further down, but RocksDB may choose two that are further down. Hence on a
// full volume the next one waits until its space is there. It waits before it chooses: afterwards it would keep tables itself.
//
// What it is not: it does not know what is free; the space gauge tells it. A merge always begins when no other runs.
//
// Threads: all functions, from any thread; a merge runs in one from its beginning to its end. The mutex is a leaf.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <thread>
#include <unordered_map>

#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class Merges {
 public:
  // `largest`: bytes that one takes in at most, as far as the reserve has them.
  explicit Merges(std::uint64_t largest) : largest_(largest) {}

  // What tables leave of the volume for merges. Until it is told they have all that they want.
  void set_space(std::uint64_t bytes);

  // In the thread of a merge. It is RocksDB's turn to choose one: waits for it, and counts as one that takes in `largest`.
  void await_turn();
  // It has chosen tables of so many bytes.
  void chosen(std::uint64_t bytes);
  // It has ended. `wrote`: and put new tables in place of those.
  void ended(bool wrote);

  // Bytes that those that run may still write, and that they keep.
  std::uint64_t needed() const;

 private:
  struct Merge {
    std::uint64_t place = 0;  // in the order in which they began
    std::uint64_t bytes = 0;
  };
  std::uint64_t sum() const LSMFS_REQUIRES(mutex_);

  const std::uint64_t largest_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t space_ LSMFS_GUARDED_BY(mutex_) = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t begun_ LSMFS_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::thread::id, Merge> running_ LSMFS_GUARDED_BY(mutex_);
  std::deque<Merge> kept_ LSMFS_GUARDED_BY(mutex_);  // what ended ones replaced, while one runs that began up to this place
};

}  // namespace lsmfs::kv
