// TreeLock: the tree's mutex, held by an operation; with what the operation wants before it is begun again, and what has been read for it.
//
// An operation that cannot go on with what is in memory changes nothing, says here what it wants, and ends with EAGAIN. Whoever began it
// gets that without the lock, and begins it again (LsmTree::attempt).
//
// A function that takes a TreeLock& may give it up meanwhile: afterwards inodes and groups have to be looked up again. One that takes a
// const TreeLock& only says what it wants.
//
// tree_mutex stands for the mutex where clang checks who holds it (lsmfs/mutex.h): LsmTree has it, and its parts do not know it by name.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"
#include "tree/fetched.h"

namespace lsmfs {

struct LSMFS_CAPABILITY("mutex") TreeMutex {};
inline constexpr TreeMutex tree_mutex;
// Of a function: is called with the tree's mutex held.
#define LSMFS_LOCKED LSMFS_REQUIRES(tree_mutex)

class LSMFS_SCOPED_CAPABILITY TreeLock : public std::unique_lock<std::mutex> {
 public:
  struct Wanted {
    std::uint64_t group = 0;     // that this one is committed; 0: none
    std::function<void()> read;  // that this is called without the lock; empty: nothing
  };

  explicit TreeLock(Mutex& mutex) LSMFS_ACQUIRE(tree_mutex) : TreeLock(mutex, std::defer_lock) { (void)lock(Wait::yes); }
  TreeLock(Mutex& mutex, std::defer_lock_t) : unique_lock(mutex, std::defer_lock) {}
  ~TreeLock() LSMFS_RELEASE() {}
  void lock() LSMFS_ACQUIRE() { unique_lock::lock(); }
  // Not analysed, nor what depends on it. False: it is taken, and `wait` is no.
  bool lock(Wait wait) {
    if (unique_lock::try_lock()) return true;
    if (wait == Wait::no) return false;
    const Waiting waiting("the tree's lock");
    unique_lock::lock();
    return true;
  }
  void unlock() LSMFS_RELEASE() { unique_lock::unlock(); }
  // Gives it up for `work`. Not analysed: which mutex a lock is of is not known where it was passed to.
  template <class Work>
  void without(const Work& work) LSMFS_LOCKED LSMFS_NOT_ANALYSED {
    unlock();
    work();
    lock();
  }

  void want(std::uint64_t group) const { wanted_.group = std::max(wanted_.group, group); }
  void want(std::function<void()> read) const {
    if (!wanted_.read) wanted_.read = std::move(read);
  }
  Wanted take_wanted() const { return std::exchange(wanted_, {}); }
  Fetched& fetched() const { return fetched_; }
  // Whether nobody else begins to change anything while it is held, or given up for a wait.
  void set_alone() { alone_ = true; }
  bool is_alone() const { return alone_; }

 private:
  mutable Wanted wanted_;
  mutable Fetched fetched_;
  bool alone_ = false;
};

}  // namespace lsmfs
