// clock: time as an argument. What runs by time asks the Clock that it was made with, to know the time and to wait.
//
// The program has one, system_clock(), which is where it reads the clocks of the system, and nowhere else. A test gives one that
// stands still until the test moves it on (test/clock.h), so that nothing depends on how fast a machine is.
// What it is not: a timer. Who waits has a thread for that.
//
// Threads: all functions, from any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "lsmfs/mutex.h"

namespace lsmfs {

class Clock {
 public:
  using Duration = std::chrono::steady_clock::duration;
  using Time = std::chrono::steady_clock::time_point;  // goes on steadily from some beginning; its default is no later than any other
  static constexpr Time kNever = Time::max();

  virtual ~Clock() = default;
  virtual Time now() = 0;
  // The time of day, as files have it. It may be set back.
  virtual std::chrono::system_clock::time_point wall() = 0;
  // Waits until it is `due` or somebody notifies `changed`; may end without a reason, as waits for conditions do.
  // `lock` holds the mutex that goes with `changed`; it is let go of while this waits.
  virtual void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time due = kNever) = 0;
  virtual void sleep_until(Time due) = 0;

  void sleep(Duration time) { sleep_until(now() + time); }
  // Waits until done() or until it is `due`; returns done(). Not analysed: `done` needs the mutex by the name that its maker has for it.
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time due, Done done) LSMFS_NOT_ANALYSED {
    while (!done()) {
      if (now() >= due) return done();
      wait(lock, changed, due);
    }
    return true;
  }

  // now(), as a number for atomics: ns since the clock's beginning.
  std::int64_t now_ns() { return now().time_since_epoch() / std::chrono::nanoseconds(1); }
};

Clock& system_clock();

}  // namespace lsmfs
