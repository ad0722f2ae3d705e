// Clones of directories that programs have asked for: from the ioctl that asks until the mkdir(2) that makes one.
//
// The source is the directory of whose descriptor the ioctl is asked, so the caller could open it. A number of an inode would prove nothing:
// whoever sees a part of the file system, such as a container, could name what lies outside of it. The place needs a check, too. Where an
// ordinary directory may be made, the kernel knows by itself: permissions, mounts that are read-only. So a thread first says what its next
// directory of some name is to be, and then makes that by mkdir(2). With this the kernel also says who that is in a mount that maps users.
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
#include <cstdint>
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
  static constexpr Clock::Duration kGood = std::chrono::minutes(1);

  explicit CloneOrders(Clock& clock) : clock_(clock) {}

  struct Source {
    Ino dir;
    bool of_any_owner = false;  // or only of who makes the clone
    bool is_staged = false;     // it has no name yet, and gets this one (Tree::stage())
  };
  enum class Outcome : std::uint32_t { ordinary, clone, denied };  // no change of numbers: they are sent

  // The directory `name` that the thread makes next in `parent` is to be a clone of `source`. Each thread has one order: the last.
  void put(pid_t thread, uid_t user, const Source& source, Ino parent, std::string_view name);
  // A thread makes a directory: gives the source, once. `is_of`: whether the thread is the user's; asked only where all else fits.
  std::optional<Source> take(pid_t thread, Ino parent, std::string_view name, const std::function<bool(uid_t)>& is_of);
  // It makes none of what it has taken.
  void deny(pid_t thread);
  // What has come of the thread's order: `clone` if it was taken. There is none any more.
  Outcome end(pid_t thread);

 private:
  struct Order {
    pid_t thread;
    uid_t user;
    Source source;
    Ino parent;
    std::string name;
    Clock::Time until;
    Outcome outcome = Outcome::ordinary;
  };

  Clock& clock_;
  Mutex mutex_;
  std::vector<Order> orders_ LSMFS_GUARDED_BY(mutex_);  // the oldest first
  std::atomic<bool> any_{false};                        // for who makes a directory
};

}  // namespace lsmfs
