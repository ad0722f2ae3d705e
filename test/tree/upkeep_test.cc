#include "tree/upkeep.h"

#include <gtest/gtest.h>

namespace lsmfs::upkeep_test {
namespace {

using namespace std::chrono_literals;

constexpr Upkeep::Time kThen{1h};
constexpr auto kInterval = 10s;

// What is due, in letters.
std::string due(Upkeep& upkeep, Upkeep::Time now, Upkeep::Duration interval = kInterval) {
  const Upkeep::Due found = upkeep.take(now, interval);
  std::string said;
  if (found.sync) said += 's';
  if (found.store_sync) said += 'm';
  if (found.note) said += 'n';
  if (found.relocation) said += 'r';
  return said;
}

TEST(Upkeep, NothingIsDueBeforeSomethingHappens) {
  Upkeep upkeep;
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
  EXPECT_EQ(due(upkeep, kThen), "");
}

TEST(Upkeep, AChangeIsSyncedBeforeItIsAsOldAsTheInterval) {
  Upkeep upkeep;
  upkeep.changed(kThen);
  upkeep.changed(kThen + 1s);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 8s);
  EXPECT_EQ(due(upkeep, kThen + 7999ms), "");
  EXPECT_EQ(due(upkeep, kThen + 8s), "s");
  EXPECT_EQ(due(upkeep, kThen + 8s), "s") << "until it is done";
  upkeep.sync_began();
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
  upkeep.changed(kThen + 9s);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 17s);
}

TEST(Upkeep, ASyncIsNotedAnIntervalLater) {
  Upkeep upkeep;
  upkeep.synced(kThen);
  upkeep.synced(kThen + 5s);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 10s);
  EXPECT_EQ(due(upkeep, kThen + 9s), "");
  EXPECT_EQ(due(upkeep, kThen + 10s), "n");
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
}

TEST(Upkeep, AnotherSyncSaysWhatANoteWouldSay) {
  Upkeep upkeep;
  upkeep.synced(kThen);
  upkeep.changed(kThen + 1s);
  EXPECT_EQ(due(upkeep, kThen + 10s), "s");
  upkeep.sync_began();
  upkeep.synced(kThen + 11s);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 21s);
}

TEST(Upkeep, MuchIsMadeDurableAtOnce) {
  Upkeep upkeep;
  upkeep.committed(Upkeep::kMuch - 1);
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
  upkeep.committed(1);
  EXPECT_EQ(upkeep.next(kInterval), Upkeep::Time());
  EXPECT_EQ(due(upkeep, kThen), "m");
  EXPECT_EQ(due(upkeep, kThen), "");
  upkeep.committed(Upkeep::kMuch);
  upkeep.sync_began();
  EXPECT_EQ(due(upkeep, kThen), "") << "somebody else has done it";
  upkeep.committed(Upkeep::kMuch);
  upkeep.changed(kThen);
  EXPECT_EQ(due(upkeep, kThen + 10s), "s") << "which does it as well";
  upkeep.sync_began();
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
}

TEST(Upkeep, ARelocationComesASecondAfterTheRenameAndPausesAfterEach) {
  Upkeep upkeep;
  upkeep.displaced(kThen);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 1s);
  EXPECT_EQ(due(upkeep, kThen + 999ms), "");
  EXPECT_EQ(due(upkeep, kThen + 1s), "r");
  upkeep.relocated(kThen + 1s, kThen + 3s, true);
  EXPECT_EQ(upkeep.next(kInterval), kThen + 11s);
  EXPECT_EQ(due(upkeep, kThen + 11s), "r");
  upkeep.relocated(kThen + 11s, kThen + 12s, false);
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever);
}

TEST(Upkeep, WithoutAnIntervalNothingIsDueAndNothingIsForgotten) {
  Upkeep upkeep;
  upkeep.changed(kThen);
  upkeep.committed(Upkeep::kMuch);
  upkeep.synced(kThen);
  upkeep.displaced(kThen);
  EXPECT_EQ(upkeep.next(0s), Clock::kNever);
  EXPECT_EQ(due(upkeep, kThen + 1h, 0s), "");
  EXPECT_EQ(due(upkeep, kThen + 1h), "sr");
}

TEST(Upkeep, ASweepComesAMomentAfterARemovalAndLeavesOthersAsMuchTime) {
  Upkeep upkeep;
  EXPECT_EQ(upkeep.next_sweep(), Clock::kNever);
  upkeep.removed_tree(kThen);
  upkeep.removed_tree(kThen + 50ms);
  EXPECT_EQ(upkeep.next_sweep(), kThen + 100ms);
  upkeep.swept(kThen + 100ms, kThen + 110ms, true);
  EXPECT_EQ(upkeep.next_sweep(), kThen + 120ms);
  upkeep.swept(kThen + 120ms, kThen + 125ms, false);
  EXPECT_EQ(upkeep.next_sweep(), Clock::kNever);
  EXPECT_EQ(upkeep.next(kInterval), Clock::kNever) << "it is apart";
}

}  // namespace
}  // namespace lsmfs::upkeep_test
