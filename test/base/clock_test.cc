#include "clock.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lsmfs::test::clock_test {
namespace {

using namespace std::chrono_literals;

TEST(Clock, TheSystemsGoesOn) {
  Clock& clock = system_clock();
  const Clock::Time before = clock.now();
  clock.sleep(1ms);
  EXPECT_GE(clock.now() - before, 1ms);
  EXPECT_GE(clock.now_ns(), before.time_since_epoch() / 1ns);
}

TEST(Clock, AWaitEndsWhenItIsDueOrDone) {
  Clock& clock = system_clock();
  std::mutex mutex;
  std::condition_variable changed;
  std::unique_lock lock(mutex);
  EXPECT_FALSE(clock.wait(lock, changed, clock.now() + 1ms, [] { return false; }));
  EXPECT_TRUE(clock.wait(lock, changed, Clock::kNever, [] { return true; }));
  bool done = false;
  std::thread other([&] {
    const std::lock_guard own(mutex);
    done = true;
    changed.notify_all();
  });
  EXPECT_TRUE(clock.wait(lock, changed, Clock::kNever, [&] { return done; }));
  lock.unlock();
  other.join();
}

// A thread that counts how often it has been due.
class Ticker {
 public:
  Ticker(Clock& clock, Clock::Duration every) : clock_(clock), every_(every), thread_([this] { run(); }) {}
  ~Ticker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  std::atomic<int> ticks = 0;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!clock_.wait(lock, changed_, clock_.now() + every_, [this] { return stop_; })) ++ticks;
  }

  Clock& clock_;
  const Clock::Duration every_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

TEST(SteppedClock, StandsStillUntilItIsMoved) {
  SteppedClock clock;
  const Ticker ticker(clock, 1h);
  ASSERT_TRUE(clock.await_waiting(1));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(ticker.ticks, i);
    ASSERT_TRUE(clock.step(59min));
    EXPECT_EQ(ticker.ticks, i);
    ASSERT_TRUE(clock.step(1min));
  }
  EXPECT_EQ(ticker.ticks, 100);
  EXPECT_GT(clock.wall(), std::chrono::system_clock::time_point());
}

TEST(SteppedClock, StepsSeveralThreads) {
  SteppedClock clock;
  const Ticker often(clock, 1s), seldom(clock, 3s);
  ASSERT_TRUE(clock.await_waiting(2));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(clock.step(1s));
  EXPECT_EQ(often.ticks, 30);
  EXPECT_EQ(seldom.ticks, 10);
}

TEST(SteppedClock, WakesThoseWhoSleep) {
  SteppedClock clock;
  std::atomic<bool> woken = false;
  std::thread sleeper([&] {
    clock.sleep(1h);
    woken = true;
  });
  ASSERT_TRUE(clock.await_waiting(1));
  ASSERT_TRUE(clock.step(59min));
  EXPECT_FALSE(woken);
  clock.advance(1min);
  sleeper.join();
  EXPECT_TRUE(woken);
}

}  // namespace
}  // namespace lsmfs::test::clock_test
