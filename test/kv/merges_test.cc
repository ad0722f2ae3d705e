#include "kv/merges.h"

#include <gtest/gtest.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <thread>

#include "gate.h"
#include "kv/env.h"
#include "kv/fail_stop.h"
#include "until.h"

namespace lsmfs::merges_test {
namespace {

using kv::Merges;
using test::until;

constexpr std::uint64_t kLargest = 100;

// One that RocksDB runs, in a thread of its own: it awaits its turn, takes in so many bytes, and writes when it is let end.
class Merge {
 public:
  Merge(Merges& merges, std::uint64_t bytes, bool writes = true)
      : thread_([this, &merges, bytes, writes] {
          merges.await_turn();
          merges.chosen(bytes);
          runs_ = true;
          (void)end_.pass();
          merges.ended(writes);
          merges.ended(false);  // as after one that found nothing to do
        }) {}
  ~Merge() { end_.open(); }
  bool runs() const {
    return until([this] { return runs_.load(); });
  }
  bool waits() const { return !runs_; }
  void end() {
    end_.open();
    thread_.join();
  }

 private:
  test::Gate end_;
  std::atomic<bool> runs_ = false;
  std::jthread thread_;
};

TEST(Merges, RunBesideEachOtherUntilItIsKnownWhatSpaceThereIs) {
  Merges merges(kLargest);
  Merge one(merges, 1000), other(merges, 1000);
  EXPECT_TRUE(one.runs());
  EXPECT_TRUE(other.runs());
  EXPECT_EQ(merges.needed(), 2000u);
}

TEST(Merges, OneBeginsWhateverTheSpaceWhenNoOtherRuns) {
  Merges merges(kLargest);
  merges.set_space(0);
  Merge one(merges, 1000);
  EXPECT_TRUE(one.runs());
}

TEST(Merges, TheNextWaitsUntilTheLargestFitsBesideThoseThatRun) {
  Merges merges(kLargest);
  merges.set_space(150);
  Merge one(merges, 60);
  ASSERT_TRUE(one.runs());
  Merge other(merges, 1);
  EXPECT_TRUE(other.waits());
  EXPECT_EQ(merges.needed(), 60u) << "one that waits has chosen nothing";
  merges.set_space(159);
  EXPECT_TRUE(other.waits());
  merges.set_space(160);
  EXPECT_TRUE(other.runs());
}

TEST(Merges, OneThatHasNotChosenYetCountsAsTheLargest) {
  Merges merges(kLargest);
  merges.set_space(150);
  merges.await_turn();
  Merge other(merges, 1);
  EXPECT_EQ(merges.needed(), kLargest);
  EXPECT_TRUE(other.waits());
  merges.chosen(50);
  EXPECT_TRUE(other.runs());
  merges.ended(true);
}

// A version of the database is kept by each merge, with all tables that it has.
TEST(Merges, WhatTheyReplacedIsKeptUntilAllHaveEndedThatRanThen) {
  Merges merges(kLargest);
  merges.set_space(250);
  Merge slow(merges, 60), quick(merges, 90);
  ASSERT_TRUE(slow.runs());
  ASSERT_TRUE(quick.runs());
  quick.end();
  EXPECT_EQ(merges.needed(), 150u) << "tables of one, and those that it keeps of the other";
  Merge moves(merges, 70, false);
  ASSERT_TRUE(moves.runs());
  moves.end();
  EXPECT_EQ(merges.needed(), 150u) << "what was only moved is a table still";
  Merge third(merges, 80);
  ASSERT_TRUE(third.runs());
  Merge next(merges, 1);
  EXPECT_TRUE(next.waits());
  slow.end();
  EXPECT_TRUE(next.runs());
  EXPECT_EQ(merges.needed(), 60u + 80u + 1u) << "the third keeps what the slow one replaced, and not what was replaced before it began";
}

TEST(Merges, OneInAThreadOfSomebodyElseIsCountedAndDoesNotWait) {
  Merges merges(kLargest);
  merges.set_space(0);
  Merge one(merges, 10);
  ASSERT_TRUE(one.runs());
  merges.chosen(20);
  EXPECT_EQ(merges.needed(), 30u);
  merges.ended(true);
  EXPECT_EQ(merges.needed(), 30u) << "kept";
  one.end();
  EXPECT_EQ(merges.needed(), 0u);
}

// What RocksDB has scheduled waits for its turn, and what it takes back never comes.
class MergesInEnv : public testing::Test {
 protected:
  void SetUp() override { env_->SetBackgroundThreads(2, rocksdb::Env::LOW); }
  // RocksDB's threads belong to the process, and do not end with the environment.
  void TearDown() override {
    for (Job* job : {&first_, &second_, &third_, &flush_}) {
      job->end.open();
      EXPECT_TRUE(!job->runs || until([&] { return job->over.load(); }));
    }
  }
  struct Job {
    test::Gate end;
    std::atomic<bool> runs = false, dropped = false, over = false;  // over: it is touched no more
  };
  void schedule(Job& job, rocksdb::Env::Priority priority = rocksdb::Env::LOW) {
    env_->Schedule(
        [](void* of_it) {
          auto& begun = *static_cast<Job*>(of_it);
          begun.runs = true;
          (void)begun.end.pass();
          begun.over = true;
        },
        &job, priority, &job, [](void* of_it) { static_cast<Job*>(of_it)->dropped = true; });
  }
  static bool begins(const Job& job) {
    return until([&] { return job.runs.load(); });
  }

  const std::shared_ptr<Merges> merges_ = std::make_shared<Merges>(kLargest);
  kv::FailStop fail_stop_{[](std::string_view) {}};
  Job first_, second_, third_, flush_;
  const std::unique_ptr<rocksdb::Env> env_ = kv::make_env(rocksdb::FileSystem::Default(), merges_, fail_stop_, system_clock());
};

TEST_F(MergesInEnv, TheNextJobWaitsUntilTheFirstHasEnded) {
  merges_->set_space(kLargest);
  schedule(first_);
  ASSERT_TRUE(begins(first_));
  schedule(second_);
  schedule(third_);
  schedule(flush_, rocksdb::Env::HIGH);
  EXPECT_TRUE(begins(flush_)) << "flushes do not";
  EXPECT_FALSE(second_.runs || third_.runs);
  EXPECT_EQ(env_->UnSchedule(&third_, rocksdb::Env::LOW), 1);
  EXPECT_TRUE(third_.dropped);
  first_.end.open();
  EXPECT_TRUE(begins(second_));
  EXPECT_FALSE(third_.runs);
  second_.end.open();
  flush_.end.open();
}

TEST_F(MergesInEnv, WhereThereIsSpaceTheyRunBesideEachOther) {
  merges_->set_space(2 * kLargest);
  schedule(first_);
  schedule(second_);
  EXPECT_TRUE(begins(first_));
  EXPECT_TRUE(begins(second_));
  first_.end.open();
  second_.end.open();
}

}  // namespace
}  // namespace lsmfs::merges_test
