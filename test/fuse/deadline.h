// The end of a test that waits for what does not come, be it in a system call or for a thread.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lsmfs::test {

// Who still has it after twenty minutes has failed; ctest ends a test a little later, and cannot say for what it waited.
class Deadline {
 public:
  // `give_up` lets all go on that wait, and says what there was to wait for. Where that does not help, the process ends.
  explicit Deadline(std::function<std::string()> give_up) : give_up_(std::move(give_up)), thread_([this] { run(); }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    const auto over_within = [&](std::chrono::minutes time) { return changed_.wait_for(lock, time, [this] { return over_; }); };
    if (over_within(std::chrono::minutes(20))) return;
    ADD_FAILURE() << give_up_();
    if (over_within(std::chrono::minutes(1))) return;
    std::fputs("the test does not end, although all that it could wait for was taken away\n", stderr);
    std::abort();
  }

  const std::function<std::string()> give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace lsmfs::test
