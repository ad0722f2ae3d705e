#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "until.h"

namespace lsmfs::waits_test {
namespace {

std::string own() { return Waits::of_this_thread().text(); }

TEST(Waits, SayWhatAThreadWaitsForFromTheOutermostOn) {
  EXPECT_EQ(own(), "");
  {
    const Waiting outer("a commit");
    EXPECT_EQ(own(), "a commit (0 s)");
    {
      const Waiting inner("write", ByteOffset{8192}, ByteCount{4096});
      EXPECT_EQ(own(), "a commit, write of 4096 bytes at 8192 of the device (0 s)");
    }
    EXPECT_EQ(own(), "a commit (0 s)");
    const Waiting flush("flush", {}, {});
    EXPECT_EQ(own(), "a commit, flush of the device (0 s)");
  }
  EXPECT_EQ(own(), "");
}

TEST(Waits, ThatLieTooDeepAreNotSeenButCounted) {
  std::vector<std::unique_ptr<Waiting>> waits;
  for (int i = 0; i < 20; ++i) waits.push_back(std::make_unique<Waiting>("x"));
  EXPECT_EQ(own(), "x, x, x, x, x, x (0 s)");
  while (waits.size() > 1) waits.pop_back();
  EXPECT_EQ(own(), "x (0 s)");
  waits.clear();
  EXPECT_EQ(own(), "");
}

TEST(Waits, OfAllThreadsTheLongestAreTold) {
  EXPECT_EQ(longest_waits(), "");
  // Each waits, and the next begins after it.
  const char* names[] = {"first", "second", "first", "third", "fourth"};
  std::promise<void> end;
  const auto ended = end.get_future().share();
  std::vector<std::thread> threads;
  for (const char* name : names) {
    std::promise<void> begun;
    auto has_begun = begun.get_future();
    threads.emplace_back([name, ended, begun = std::move(begun)]() mutable {
      const Waiting outer("something around it");
      const Waiting waiting(name);
      begun.set_value();
      ended.wait();
    });
    has_begun.wait();
    const Clock::Time then = system_clock().now();
    ASSERT_TRUE(test::until([&] { return system_clock().now() > then; }));
  }
  const std::string told = longest_waits();
  EXPECT_NE(told.find("first ("), told.npos) << told;
  EXPECT_LT(told.find("first"), told.find("second")) << told;
  EXPECT_LT(told.find("second"), told.find("third")) << told;
  EXPECT_EQ(told.find("fourth"), told.npos) << told;
  EXPECT_EQ(told.find("first"), told.rfind("first")) << told;
  EXPECT_EQ(own(), "");
  end.set_value();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(longest_waits(), "");
}

}  // namespace
}  // namespace lsmfs::waits_test
