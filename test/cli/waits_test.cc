// What commands wait for, by a clock that goes on when the test says so.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <future>

#include "cli/device_use.h"
#include "cli/program.h"
#include "cli/rate.h"
#include "clock.h"

namespace lsmfs::cli::waits_test {
namespace {

using namespace std::chrono_literals;

// ---- a rate

TEST(Rate, IsKeptByWaitingForAsLongAsItIsTooEarly) {
  const ByteCount rate{64 * MiB};
  EXPECT_EQ(early_by(ByteCount{64 * MiB}, 0s, rate), 1s);
  EXPECT_EQ(early_by(ByteCount{64 * MiB}, 250ms, rate), 750ms);
  EXPECT_EQ(early_by(ByteCount{640 * MiB}, 9s, rate), 1s);
  EXPECT_LE(early_by(ByteCount{64 * MiB}, 1s, rate), 0s);
  EXPECT_LE(early_by(ByteCount{64 * MiB}, 1h, rate), 0s) << "it may make up for lost time";
  EXPECT_LE(early_by(ByteCount{}, 0s, rate), 0s);
}

TEST(Rate, OfZeroIsNoLimit) {
  EXPECT_LE(early_by(ByteCount{UINT64_MAX}, 0s, ByteCount{}), 0s);
}

TEST(Rate, MayBeSoLowThatItTakesForever) {
  EXPECT_GT(early_by(ByteCount{UINT64_MAX}, 0s, ByteCount{1}), 1000h);
}

// ---- another daemon that still has the image

class StillClosing : public lsmfs::test::Folder {
 protected:
  StillClosing() {
    other_.reset(::open(make_file("image", 4096).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::flock(other_.get(), LOCK_EX), 0);
    use_ = std::async(std::launch::async, [this] {
      return in_use_for_good(path("image"), [this](std::string_view line) {
        const std::lock_guard lock(mutex_);
        notices_.emplace_back(line);
      }, clock_);
    });
    EXPECT_TRUE(clock_.await_waiting(1));
  }
  ~StillClosing() override {
    other_.reset();
    clock_.advance(1min);
  }
  std::vector<std::string> notices() {
    const std::lock_guard lock(mutex_);
    return notices_;
  }

  Fd other_;
  lsmfs::test::SteppedClock clock_;
  std::mutex mutex_;
  std::vector<std::string> notices_;  // guarded by mutex_
  std::future<std::optional<std::string>> use_;
};

TEST_F(StillClosing, IsWaitedForAndToldOfOnceThatTakesLong) {
  ASSERT_TRUE(clock_.step(200ms));
  EXPECT_EQ(notices(), std::vector<std::string>{});
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(clock_.step(10ms));
  EXPECT_EQ(notices(), std::vector<std::string>{path("image") + ": another lsmfs is still closing it; waiting"});
  other_.reset();
  clock_.advance(10ms);
  EXPECT_EQ(use_.get(), std::nullopt);
}

TEST_F(StillClosing, IsNotWaitedForForEver) {
  ASSERT_TRUE(clock_.step(60s));
  clock_.advance(10ms);
  EXPECT_EQ(use_.get(), "another lsmfs is still closing it");
}

}  // namespace
}  // namespace lsmfs::cli::waits_test
