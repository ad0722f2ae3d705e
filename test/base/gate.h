// Holds the threads of a test in the middle of what they do, until they may go on.
#pragma once

#include <condition_variable>
#include <mutex>

#include "lsmfs/clock.h"

namespace lsmfs::test {

class Gate {
 public:
  explicit Gate(bool open = false) : open_(open) {}

  // Waits while it is shut. False: nobody has opened it.
  bool pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    const bool opened = wait(lock, [this] { return open_; });
    --waiting_;
    return opened;
  }
  void open() { set(true); }
  void shut() { set(false); }
  // Returns when so many wait. False: they never did.
  bool await(unsigned waiting) {
    std::unique_lock lock(mutex_);
    return wait(lock, [&] { return waiting_ >= waiting; });
  }

 private:
  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, Condition condition) {
    constexpr auto kPatience = std::chrono::minutes(2);  // then something is wrong
    return system_clock().wait(lock, changed_, system_clock().now() + kPatience, condition);
  }
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_;
  unsigned waiting_ = 0;
};

}  // namespace lsmfs::test
