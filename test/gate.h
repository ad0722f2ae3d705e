// Holds the threads of a test in the middle of what they do, until they may go on.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "lsmfs/clock.h"

namespace lsmfs::test {

// Nobody waits for ever: what does not come within minutes fails the test, and who waited goes on, with false.
class Gate {
 public:
  explicit Gate(bool open = false) : open_(open) {}

  // Waits while it is shut.
  bool pass() {
    std::unique_lock lock(mutex_);
    if (open_) return true;
    const unsigned opened = opened_;
    ++waiting_;
    changed_.notify_all();
    if (wait(lock, std::chrono::minutes(5), [&] { return opened_ != opened; })) return true;
    --waiting_;
    ADD_FAILURE() << "nobody has opened the gate";
    return false;
  }
  // All who wait go on, also when it is shut again at once.
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    ++opened_;
    waiting_ = 0;
    changed_.notify_all();
  }
  void shut() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }
  // Returns when so many wait.
  bool await(unsigned waiting) {
    std::unique_lock lock(mutex_);
    const bool came = wait(lock, std::chrono::minutes(2), [&] { return waiting_ >= waiting; });
    EXPECT_TRUE(came) << waiting_ << " have come to the gate, not " << waiting;
    return came;
  }

 private:
  template <class Condition>
  bool wait(std::unique_lock<std::mutex>& lock, Clock::Duration patience, Condition condition) {
    return system_clock().wait(lock, changed_, system_clock().now() + patience, condition);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_;
  unsigned opened_ = 0;   // how often
  unsigned waiting_ = 0;  // since then
};

}  // namespace lsmfs::test
