#include "kv/pace.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lsmfs::pace_test {
namespace {

using kv::Pace;
using namespace std::chrono_literals;
using Time = Clock::Time;

constexpr std::uint64_t kFull = 32 * MiB, kCommit = 256 * KiB;
constexpr std::chrono::nanoseconds kFlush = 160ms;  // of a full memtable

// A writer and one thread that flushes, on a clock of their own.
class Lives {
 public:
  // A memtable's flush has been seen.
  Lives() {
    pace.flush_begins(Family::blocks, now);
    pace.flush_ended(Family::blocks, kFull, now += kFlush);
  }

  // One commit of a writer that takes `own` for it; how long it waited.
  Clock::Duration commit(Clock::Duration own) {
    pace.measured(Family::blocks, {active + waiting, waiting, kFull});
    const auto waits = std::max(pace.due(kCommit, now) - now, Clock::Duration(0));
    pass(waits + own);
    active += kCommit;
    if (active >= kFull) {
      waiting += active;
      active = 0;
      if (flushed_at == Time()) begin();
    }
    most = std::max(most, active + waiting);
    return waits;
  }

  Pace pace;
  Time now = Time(1h);
  std::uint64_t active = 0, waiting = 0, most = 0;

 private:
  void begin() {
    pace.flush_begins(Family::blocks, now);
    flushed_at = now + kFlush;
  }
  void pass(Clock::Duration time) {
    now += time;
    while (flushed_at != Time() && flushed_at <= now) {
      pace.flush_ended(Family::blocks, kFull, flushed_at);
      waiting -= kFull;
      flushed_at = Time();
      if (waiting > 0) begin();
    }
  }
  Time flushed_at{};
};

TEST(Pace, WhoWritesMoreSlowlyThanFlushesGoHardlyWaits) {
  Lives lives;
  Clock::Duration all{};
  const Time begin = lives.now;
  for (int i = 0; i < 10'000; ++i) all += lives.commit(kFlush * kCommit / kFull * 5 / 4);
  EXPECT_LE(all, (lives.now - begin) / 100);
}

TEST(Pace, WhoWritesFasterIsSlowedALittleAtATime) {
  Lives lives;
  Clock::Duration longest{};
  const Time begin = lives.now;
  constexpr int kCommits = 10'000;
  for (int i = 0; i < kCommits; ++i) {
    longest = std::max(longest, lives.commit(kFlush * kCommit / kFull / 4));
  }
  EXPECT_LE(longest, 10ms);  // a flush takes sixteen times as long
  EXPECT_LT(lives.most, 3 * kFull);
  // No faster than flushes, and hardly slower.
  const auto flushes = kFlush * kCommits * kCommit / kFull;
  EXPECT_GE(lives.now - begin, flushes - 3 * kFlush);
  EXPECT_LE(lives.now - begin, flushes + flushes / 10);
}

TEST(Pace, AWriterWhoBeginsDoesNotWait) {
  Lives lives;
  for (std::uint64_t written = 0; written <= Pace::kFree * kFull; written += kCommit) EXPECT_EQ(lives.commit(1us), 0ms);
}

TEST(Pace, NothingIsKnownOfFlushesBeforeTheFirst) {
  Pace pace;
  pace.measured(Family::blocks, {3 * kFull, 2 * kFull, kFull});
  EXPECT_EQ(pace.due(kCommit, Time(1h)), Time(1h));
  EXPECT_EQ(pace.due(kCommit, Time(1h)), Time(1h));
}

TEST(Pace, ASmallFlushTellsNothing) {
  Lives lives;
  lives.pace.flush_begins(Family::blocks, lives.now);
  lives.pace.flush_ended(Family::blocks, 4 * KiB, lives.now += 1s);
  Clock::Duration longest{};
  for (int i = 0; i < 1'000; ++i) longest = std::max(longest, lives.commit(1us));
  EXPECT_LE(longest, 10ms);
}

TEST(Pace, OneCommitWaitsForALimitedTime) {
  Lives lives;
  lives.pace.measured(Family::names, {3 * kFull, 2 * kFull, kFull});
  lives.pace.flush_begins(Family::names, lives.now);
  lives.pace.flush_ended(Family::names, kFull, lives.now += 1h);
  EXPECT_EQ(lives.pace.due(kCommit, lives.now), lives.now);
  EXPECT_EQ(lives.pace.due(kCommit, lives.now), lives.now + Pace::kLongest);
}

// Each takes its part of what a merge takes, so that what there is lasts until the next one ends.
TEST(Pace, WithLittleToSpareCommitsLastUntilAMergeEnds) {
  constexpr std::uint64_t kTotal = GiB;
  const auto one_after_another = [](Pace& pace) {  // what the second waits for the first
    const Time now(1h);
    (void)pace.due(kCommit, now);
    return pace.due(kCommit, now) - now;
  };
  Pace pace;
  pace.space(kTotal / 100, kTotal);
  EXPECT_EQ(one_after_another(pace), 0s) << "no merge has been seen";
  pace.merged(400ms);
  pace.space(kTotal / 8, kTotal);
  EXPECT_EQ(one_after_another(pace), 0s) << "there is much";
  for (const std::uint64_t commits : {128, 64, 32}) {
    Pace tight;
    tight.merged(400ms);
    tight.space(commits * kCommit, kTotal);
    EXPECT_NEAR(std::chrono::duration<double>(one_after_another(tight)).count(), 0.4 / static_cast<double>(commits), 1e-6) << commits;
  }
  Pace none;
  none.merged(400ms);
  none.space(0, kTotal);
  EXPECT_EQ(one_after_another(none), Pace::kLongest);
}

}  // namespace
}  // namespace lsmfs::pace_test
