// TreeLock: the tree's mutex, held by an operation; with what the operation wants before it is begun again, and what has been read for it.
//
// An operation that cannot go on with what is in memory changes nothing, says here what it wants, and ends with EAGAIN. Whoever began it
// gets that without the lock, and begins it again (LsmTree::attempt).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>

#include "tree/fetched.h"

namespace lsmfs {

class TreeLock : public std::unique_lock<std::mutex> {
 public:
  struct Wanted {
    std::uint64_t group = 0;     // that this one is committed; 0: none
    std::function<void()> read;  // that this is called without the lock; empty: nothing
  };

  using unique_lock::unique_lock;
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
