// Groups and their commits, without a tree: in which order they come, what is told, and what a failure leaves.
#include "tree/history.h"

#include <gtest/gtest.h>

#include <thread>

#include "tree/harness.h"
#include "tree/parts.h"

namespace lsmfs::test::history_test {
namespace {

using Heard = std::vector<std::string>;

class Histories : public Parts {
 protected:
  History& history() { return *history_; }
};

TEST_F(Histories, AGroupIsCommittedWithItsRecordsAndTheNextIsOpenMeanwhile) {
  client_.records = [](Group& group) { group.batch.put(Family::names, "record", "of " + std::to_string(group.number)); };
  TreeLock lock(mutex_);
  EXPECT_EQ(history().open().number, 1U);
  EXPECT_EQ(history().committed(), 0U);
  put("a", "1");
  held_->hold();
  history().pass_on(Committer::By::its_thread);
  ASSERT_TRUE(held_->await_waiting());
  EXPECT_EQ(history().open().number, 2U);
  ASSERT_NE(history().sealed(), nullptr);
  EXPECT_EQ(history().sealed()->number, 1U);
  put("a", "2");
  EXPECT_TRUE(history().finish_ended(lock)) << "it has not";
  EXPECT_EQ(client_.heard, (Heard{"records 1"}));
  held_->release();
  history().await(lock, 1);
  EXPECT_EQ(history().sealed(), nullptr);
  EXPECT_EQ(history().committed(), 1U);
  EXPECT_EQ(client_.heard, (Heard{"records 1", "settled 1", "committed 1"}));
  EXPECT_EQ(shown("a"), "1");
  EXPECT_EQ(shown("record"), "of 1");
  history().await(lock, 2);
  EXPECT_EQ(shown("a"), "2");
  EXPECT_EQ(shown("record"), "of 2");
  EXPECT_EQ(history().open().number, 3U);
  EXPECT_TRUE(history().open().empty());
  history().await(lock, 1);
  EXPECT_EQ(client_.heard.size(), 6U) << "it was there";
}

TEST_F(Histories, WhoNeedsAGroupThatIsNotCommittedIsToldToWantIt) {
  TreeLock lock(mutex_);
  put("a", "1");
  EXPECT_TRUE(history().settle(lock, 0)) << "no group has changed it";
  EXPECT_EQ(code(history().settle(lock, 1)), EAGAIN);
  const TreeLock::Wanted wanted = lock.take_wanted();
  EXPECT_EQ(wanted.group, 1U);
  EXPECT_FALSE(wanted.read);
  history().await(lock, wanted.group);
  EXPECT_TRUE(history().settle(lock, 1));
  EXPECT_EQ(lock.take_wanted().group, 0U);
}

TEST_F(Histories, TheLockIsFreeWhileSomebodyWaitsForACommit) {
  held_->hold();
  std::thread waiter([this] {
    TreeLock lock(mutex_);
    put("a", "1");
    commit(lock);
    EXPECT_TRUE(lock.owns_lock());
  });
  ASSERT_TRUE(held_->await_waiting());
  {
    TreeLock lock(mutex_);
    EXPECT_EQ(history().open().number, 2U);
    put("b", "2");
  }
  held_->release();
  waiter.join();
  TreeLock lock(mutex_);
  EXPECT_EQ(shown("a"), "1");
  EXPECT_EQ(shown("b"), "") << "it is of the next group";
  commit(lock);
  EXPECT_EQ(shown("b"), "2");
}

TEST_F(Histories, WhatIsInMemoryAfterAFailedCommitCanBeReadAndNothingIsCommittedAnyMore) {
  TreeLock lock(mutex_);
  put("a", "1");
  commit(lock);
  client_.heard.clear();
  held_->release(ENXIO);
  put("a", "2");
  history().pass_on(Committer::By::who_waits);
  put("b", "3");
  history().await(lock, 2);
  ASSERT_TRUE(history().failure());
  EXPECT_EQ(history().failure()->code, ENXIO);
  ASSERT_EQ(notices_.size(), 1U);
  EXPECT_NE(notices_[0].find("a commit failed"), std::string::npos) << notices_[0];
  // Also what was open then, in its order.
  EXPECT_EQ(client_.heard, (Heard{"records 2", "keep 2", "settled 2", "records 3", "keep 3", "settled 3"}));
  EXPECT_EQ(shown("a"), "2");
  EXPECT_EQ(shown("b"), "3");
  EXPECT_EQ(history().committed(), 3U);
  history().await(lock, 4);  // which nobody commits
  EXPECT_EQ(notices_.size(), 1U);
}

TEST_F(Histories, AFailureWhileAGroupIsBeingCommittedLeavesItToItsEnd) {
  TreeLock lock(mutex_);
  held_->hold();
  put("a", "1");
  history().pass_on(Committer::By::its_thread);
  ASSERT_TRUE(held_->await_waiting());
  put("a", "2");
  history().fail("a sync", Error{EIO, "the device"});
  history().fail("another", Error{ENXIO, "the device"});
  EXPECT_EQ(history().failure()->code, EIO) << "the first counts";
  EXPECT_EQ(notices_.size(), 1U);
  EXPECT_EQ(history().committed(), 0U);
  held_->release();
  history().await(lock, 2);
  EXPECT_EQ(client_.heard, (Heard{"records 1", "settled 1", "committed 1", "records 2", "keep 2", "settled 2"}));
  EXPECT_EQ(shown("a"), "2");
}

TEST_F(Histories, TellsHowLargeTheOpenGroupIsAndWhichOneMadeRows) {
  TreeLock lock(mutex_);
  EXPECT_FALSE(history().larger_than(1));
  EXPECT_EQ(history().last_rows(), 0U);
  history().open().records.resize(History::kGroupRecords);
  EXPECT_FALSE(history().larger_than(1));
  EXPECT_EQ(history().last_rows(), 0U) << "records are only written again";
  history().open().records.emplace_back();
  EXPECT_TRUE(history().larger_than(1));
  EXPECT_FALSE(history().larger_than(2));
  history().open().records.clear();
  history().open().streamed_bytes = History::kGroupStreamed;
  EXPECT_TRUE(history().has_streamed(1));
  EXPECT_FALSE(history().has_streamed(2));
  EXPECT_FALSE(history().larger_than(1)) << "these are counted by themselves";
  history().open().streamed_bytes = 0;
  put("a", std::string(2 * History::kGroupBytes, 'x'));
  EXPECT_TRUE(history().larger_than(2));
  EXPECT_EQ(history().last_rows(), 1U);
  const std::size_t bytes = history().uncommitted_bytes();
  held_->hold();
  history().pass_on(Committer::By::its_thread);
  EXPECT_EQ(history().uncommitted_bytes(), bytes + history().open().bytes());
  EXPECT_EQ(history().last_rows(), 1U);
  held_->release();
  history().await(lock, 1);
  EXPECT_EQ(history().uncommitted_bytes(), history().open().bytes());
}

}  // namespace
}  // namespace lsmfs::test::history_test
