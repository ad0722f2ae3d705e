// SteppedClock: a Clock that stands still until a test moves it on.
//
// With it a test of what runs by time has no sleeps and no patience: it changes something, steps, and what was due then has been
// done. What does not wait by this clock (the kernel, RocksDB's own threads) is not waited for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <thread>

#include "lsmfs/clock.h"

namespace lsmfs::test {

class SteppedClock final : public Clock {
 public:
  using Clock::wait;
  SteppedClock() : teller_([this] { tell(); }) {}
  ~SteppedClock() override {
    {
      const std::lock_guard own(mutex_);
      stop_ = true;
    }
    moved_.notify_all();
    teller_.join();
  }
  Time now() override {
    const std::lock_guard own(mutex_);
    return now_;
  }
  std::chrono::system_clock::time_point wall() override {
    return std::chrono::system_clock::time_point(std::chrono::hours(24 * 365 * 56)) + now().time_since_epoch();
  }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time due) override {
    const Waiting waiting(*this, due, lock.mutex(), &changed);
    if (waiting.goes_on()) changed.wait(lock);
  }
  void sleep_until(Time due) override {
    while (now() < due) {
      const Waiting waiting(*this, due);
      std::unique_lock own(mutex_);
      moved_.wait(own, [&] { return !waiting.goes_on_locked(); });
    }
  }

  // Moves the time on; who waits hears of it soon.
  void advance(Duration by) {
    const std::lock_guard own(mutex_);
    now_ += by;
    ++steps_;
    moved_.notify_all();
  }
  // Moves the time on, perhaps by nothing, and returns when each thread that waited has seen that, and all else that there was
  // before, and waits again, for a later time. False: one has not within a minute.
  bool step(Duration by = Duration::zero()) { return step(by, waiting()); }
  // The same for so many threads: for who has just woken one, which then may not wait at the moment.
  bool step(Duration by, std::size_t threads) {
    advance(by);
    return await_waiting(threads);
  }
  // Returns when so many threads wait for later times. False: they do not within a minute.
  bool await_waiting(std::size_t threads) {
    std::unique_lock own(mutex_);
    return waits_.wait_for(own, std::chrono::minutes(1), [&] { return waiting_now() >= threads; });
  }
  std::size_t waiting() {
    const std::lock_guard own(mutex_);
    return waiting_now();
  }

 private:
  struct Waiter {
    Time due;
    std::uint64_t step;  // that it has seen
    std::mutex* mutex;
    std::condition_variable* changed;  // who sleeps has neither
    bool told = false;                 // that there was another step
  };
  // While it is there, its thread waits.
  class Waiting {
   public:
    Waiting(SteppedClock& clock, Time due, std::mutex* mutex = nullptr, std::condition_variable* changed = nullptr) : clock_(clock) {
      const std::lock_guard own(clock_.mutex_);
      self_ = clock_.waiters_.insert(clock_.waiters_.end(), {due, clock_.steps_, mutex, changed});
      clock_.waits_.notify_all();
    }
    ~Waiting() {
      const std::lock_guard own(clock_.mutex_);
      clock_.waiters_.erase(self_);
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    bool goes_on() const {
      const std::lock_guard own(clock_.mutex_);
      return goes_on_locked();
    }
    bool goes_on_locked() const { return self_->step == clock_.steps_ && self_->due > clock_.now_; }

   private:
    SteppedClock& clock_;
    std::list<Waiter>::iterator self_;
  };

  static constexpr auto kLook = std::chrono::milliseconds(1);

  // In a thread of its own: tells those who wait for conditions of each step. Whose mutex is taken is told later.
  void tell() {
    std::unique_lock own(mutex_);
    while (!stop_) {
      bool all = true;
      for (Waiter& waiter : waiters_) {
        if (!waiter.changed || waiter.told || waiter.step == steps_) continue;
        // With its mutex, or it might be just about to wait. It stays in the list as long as both mutexes are held here.
        const std::unique_lock theirs(*waiter.mutex, std::try_to_lock);
        if (theirs) waiter.changed->notify_all();
        waiter.told = theirs.owns_lock();
        all = all && waiter.told;
      }
      if (all) {
        moved_.wait(own);
      } else {
        moved_.wait_for(own, kLook);
      }
    }
  }
  std::size_t waiting_now() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(waiters_, [this](const Waiter& waiter) { return waiter.step == steps_ && waiter.due > now_; }));
  }

  std::mutex mutex_;
  std::condition_variable moved_, waits_;
  Time now_{std::chrono::hours(1)};
  std::uint64_t steps_ = 0;
  std::list<Waiter> waiters_;
  bool stop_ = false;
  std::thread teller_;
};

}  // namespace lsmfs::test
