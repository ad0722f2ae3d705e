// Clones of directories that programs have asked for: from the ioctl that asks until the mkdir(2) that makes one.
//
// The source is the directory of whose descriptor the ioctl is asked, so the caller could open it. A number of an inode would prove nothing:
// whoever sees a part of the file system, such as a container, could name what lies outside of it. The place needs a check, too. Where an
// ordinary directory may be made, the kernel knows by itself: permissions, users that a mount maps, mounts that are read-only. So a thread
// first says what its next directory of some name is to be, and then makes that by mkdir(2).
//
// What it is not: it does not look who may clone what, and it makes nothing.
//
// An order is good for a short time, for one thread of one user. Only some are kept: a user who gives many pushes out his own. A thread asks
// at the end whether its directory is a clone, since an order that has gone leaves it an ordinary one.
//
// Threads: all functions, from any.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"
#include "lsmfs/tree.h"

namespace lsmfs {

class CloneOrders {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr Clock::Duration kGood = std::chrono::seconds(10);

  explicit CloneOrders(Clock& clock) : clock_(clock) {}

  // The directory `name` that the thread makes next in `parent` is to be a clone of `source`. Each thread has one order: the last.
  void put(pid_t thread, uid_t user, Ino source, Ino parent, std::string_view name);
  // A thread makes a directory: gives the source, once. `is_of`: whether the thread is the user's; asked only where all else fits.
  std::optional<Ino> take(pid_t thread, Ino parent, std::string_view name, const std::function<bool(uid_t)>& is_of);
  // Whether the thread's order was taken. There is none any more.
  bool end(pid_t thread);

 private:
  struct Order {
    pid_t thread;
    uid_t user;
    Ino source, parent;
    std::string name;
    Clock::Time until;
    bool taken = false;
  };

  Clock& clock_;
  Mutex mutex_;
  std::vector<Order> orders_ LSMFS_GUARDED_BY(mutex_);  // the oldest first
  std::atomic<bool> any_{false};                        // for who makes a directory
};

}  // namespace lsmfs
