// Holds the threads of a test in the middle of what they do, until they may go on.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace lsmfs::test {

// Holds who wants to pass until it is opened. Nobody waits for ever: what does not come fails the test, and who waited goes on.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(5), [this] { return open_; })) << "nobody has opened the gate";
    --waiting_;
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void await(unsigned waiting) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::minutes(2), [&] { return waiting_ >= waiting; }))
        << waiting_ << " have come to the gate, not " << waiting;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  unsigned waiting_ = 0;
};

}  // namespace lsmfs::test
