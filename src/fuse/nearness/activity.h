// A thread that has something to do only while requests come, and sleeps else, so that an idle mount costs no power.
//
// Threads: request() from any, cheap enough for every request. A request just before the thread falls asleep may be missed;
// the next is not.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <thread>

#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class Activity {
 public:
  struct Work {  // all of it done by the thread
    std::function<void()> begin = [] {};  // requests come
    std::function<void()> look = [] {};   // at once, and again every so often
    std::function<void()> end = [] {};    // there have been none for some milliseconds, or the object goes
  };
  // `name`: of its thread, as of name_thread().
  Activity(Clock& clock, const char* name, Clock::Duration every, Work work);
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  // Says that a request has come.
  void request() {
    // All processors read this word, and none takes it from the others for long.
    if (!heard_.load(std::memory_order_relaxed)) heard_.store(true, std::memory_order_relaxed);
    if (asleep_.load(std::memory_order_relaxed)) wake();
  }

 private:
  void run();
  // Each until the object goes: then false.
  bool sleep();  // until a request comes
  bool pause();  // until it is time to look
  void wake();

  Clock& clock_;
  const Clock::Duration every_;
  const Work work_;
  std::atomic<bool> heard_{false};   // since the last look
  std::atomic<bool> asleep_{false};  // true only while the thread waits for a request; written with mutex_
  Mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ LSMFS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lsmfs
