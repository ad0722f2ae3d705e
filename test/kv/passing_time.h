// Lets time pass on a stepped clock for as long as it is there, a little whenever it gets to run: for tests of a whole store, whose
// threads wait for this and that, and in which nothing depends on how long.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "clock.h"
#include "until.h"

namespace lsmfs::kv_test {

class PassingTime {
 public:
  explicit PassingTime(test::SteppedClock& clock) : thread_([this, &clock] {
    while (!test::until([&] {
      clock.advance(kTick);
      return stop_.load();
    })) {}
  }) {}
  ~PassingTime() {
    stop_ = true;
    thread_.join();
  }
  PassingTime(const PassingTime&) = delete;
  PassingTime& operator=(const PassingTime&) = delete;

 private:
  static constexpr auto kTick = std::chrono::milliseconds(10);

  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace lsmfs::kv_test
