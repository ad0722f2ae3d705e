// Gate: holds whoever passes while it is shut. Thread-safe.
#pragma once

#include <condition_variable>
#include <mutex>

#include "until.h"

namespace lsmfs::test {

class Gate {
 public:
  void shut() {
    const std::lock_guard lock(mutex_);
    shut_ = true;
    arrived_ = false;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    shut_ = false;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    arrived_ = true;
    changed_.wait(lock, [this] { return !shut_; });
  }
  // Waits until somebody has come to it since it was shut. False: nobody does.
  bool await_arrival() {
    return until([this] {
      const std::lock_guard lock(mutex_);
      return arrived_;
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool shut_ = false, arrived_ = false;
};

}  // namespace lsmfs::test
