// kv/memory_only: "answer from memory or say that you cannot", for reads through RocksDB.
//
// RocksDB has kBlockCacheTier for this, but its iterators (7.8) can lose the resulting Incomplete
// on the way up and then pass over rows as if they did not exist. So reads that must not wait use
// the ordinary tier inside a MemoryOnly scope: the table files refuse to touch the device for this
// thread, and count it. Whatever came out of a scope with a refusal is thrown away.
//
// Threads: a scope concerns the thread that made it. RocksDB reads in the caller's thread.
#pragma once

#include <cstdint>

namespace lsmfs::kv {

class MemoryOnly {
 public:
  explicit MemoryOnly(bool active) : outer_(active_), refusals_before_(refusals_) { active_ = active_ || active; }
  ~MemoryOnly() { active_ = outer_; }
  MemoryOnly(const MemoryOnly&) = delete;
  MemoryOnly& operator=(const MemoryOnly&) = delete;

  // Whether a table file has refused a read since the scope began.
  bool refused() const { return refusals_ != refusals_before_; }

  static bool active() { return active_; }
  // For the table files: true when this read must not happen; then it counts as refused.
  static bool refuse() {
    if (active_) ++refusals_;
    return active_;
  }

 private:
  static inline thread_local bool active_ = false;
  static inline thread_local std::uint64_t refusals_ = 0;
  const bool outer_;
  const std::uint64_t refusals_before_;
};

}  // namespace lsmfs::kv
