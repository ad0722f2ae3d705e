// Holds the threads of a test in the middle of what they do, until they may go on.
#pragma once

#include <condition_variable>
#include <mutex>

namespace lsmfs::test {

// Holds who wants to pass until it is opened.
class Gate {
 public:
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
    --waiting_;
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void await(unsigned waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  unsigned waiting_ = 0;
};

}  // namespace lsmfs::test
