// A thread of a test, of which can be told what it waits for: a test that wants it to be in the middle of a wait need not guess when.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "lsmfs/base.h"
#include "until.h"

namespace lsmfs::test {

class WatchedThread {
 public:
  explicit WatchedThread(std::function<void()> work)
      : thread_([this, work = std::move(work)] {
          watch(&Waits::of_this_thread());
          work();
          watch(nullptr);
        }) {}
  ~WatchedThread() { join(); }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

  // Returns when it waits for `what` (lsmfs/base.h: Waiting), perhaps among others. False: it never has.
  bool await(std::string_view what) const {
    return until([&] { return waits().find(what) != std::string::npos; });
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  void watch(const Waits* waits) {
    const std::lock_guard lock(mutex_);
    waits_ = waits;
  }
  std::string waits() const {
    const std::lock_guard lock(mutex_);
    return waits_ ? waits_->text() : std::string();
  }

  mutable std::mutex mutex_;
  const Waits* waits_ = nullptr;  // null: it has not begun, or has ended
  std::thread thread_;
};

}  // namespace lsmfs::test
