// The keeper on a database in memory, on a clock that the tests move.
#include "kv/keeper.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "clock.h"
#include "gate.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::keeper_test {
namespace {

using kv::Erased;
using kv::ErasedRange;
using kv_test::number_key;
using namespace std::chrono_literals;

class KeeperTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 1000;

  // Rows at the bottom.
  KeeperTest() {
    rocksdb::Options options;
    options.env = env_.get();
    options.create_if_missing = true;
    options.listeners.push_back(listener_);
    rocksdb::DB* db = nullptr;
    must(rocksdb::DB::Open(options, "/db", &db));
    db_.reset(db);
    for (std::uint64_t n = 0; n < kRows; ++n) must(db_->Put({}, number_key(n), "row"));
    must(db_->CompactRange({}, nullptr, nullptr));
    start();
  }
  ~KeeperTest() override {
    keeper_.stop();
    must(db_->Close());
  }
  struct Listener : rocksdb::EventListener {
    explicit Listener(kv::Keeper& of) : keeper(of) {}
    void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
      const bool passed = told.pass();
      EXPECT_TRUE(passed);
      keeper.tables_changed();
    }
    kv::Keeper& keeper;
    test::Gate told{true};
  };
  void start() {
    auto* const handle = db_->DefaultColumnFamily();
    keeper_.start(db_.get(), {handle, handle});
    EXPECT_TRUE(clock_.await_waiting(1));
  }

  static void must(const rocksdb::Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }
  // Erases them all, and notes it.
  void erase() {
    must(db_->DeleteRange({}, db_->DefaultColumnFamily(), number_key(0), number_key(kRows)));
    keeper_.note({ErasedRange{Family::names, number_key(0), number_key(kRows)}}, {});
    EXPECT_TRUE(clock_.step(Clock::Duration::zero(), 1));
  }
  bool tables_left() const {
    std::vector<rocksdb::LiveFileMetaData> tables;
    db_->GetLiveFilesMetaData(&tables);
    return !tables.empty();
  }
  void set_worst() {
    const std::lock_guard lock(mutex_);
    worst_ = std::pair(number_key(0), number_key(kRows));
  }
  std::optional<std::pair<std::string, std::string>> worst() {
    ++asked_for_worst_;
    const std::lock_guard lock(mutex_);
    return worst_;
  }
  static bool happens(const std::atomic<int>& what, int times) {
    return test::until([&] { return what >= times; });
  }

  std::unique_ptr<rocksdb::Env> env_{rocksdb::NewMemEnv(rocksdb::Env::Default())};
  std::unique_ptr<rocksdb::DB> db_;
  test::SteppedClock clock_;
  kv::FailStop fail_stop_{[](std::string_view) {}};
  std::atomic<int> flushes_ = 0, reclaims_ = 0, measured_ = 0, asked_for_worst_ = 0;
  std::mutex mutex_;
  std::optional<std::pair<std::string, std::string>> worst_;  // guarded by mutex_
  kv::Keeper keeper_{fail_stop_, clock_, MiB, {MiB, MiB}, [this] { ++flushes_; }, [this] { ++reclaims_; }, [this] { return worst(); },
                     [this] { ++measured_; }};
  const std::shared_ptr<Listener> listener_ = std::make_shared<Listener>(keeper_);
};

TEST_F(KeeperTest, MeasuresWhenItIsDue) {
  keeper_.measure_at(clock_.now() + 2s);
  keeper_.measure_at(clock_.now() + 1s);
  keeper_.measure_at(Clock::kNever);
  ASSERT_TRUE(clock_.await_waiting(1));
  EXPECT_EQ(measured_, 0);
  ASSERT_TRUE(clock_.step(1s));
  EXPECT_TRUE(happens(measured_, 1));
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(measured_, 1);
}

TEST_F(KeeperTest, FlushesWhenItIsAsked) {
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(flushes_, 0);
  keeper_.want_flush();
  EXPECT_TRUE(happens(flushes_, 1));
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(flushes_, 1);
  EXPECT_EQ(reclaims_, 0);
}

TEST_F(KeeperTest, WhatWasErasedIsCompactedWhenItHasRested) {
  erase();
  ASSERT_TRUE(clock_.step(Erased::kRest - 1s));
  EXPECT_EQ(flushes_, 0);
  EXPECT_TRUE(tables_left());
  clock_.advance(1s);
  EXPECT_TRUE(happens(reclaims_, 1));
  EXPECT_FALSE(tables_left());
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(reclaims_, 1);
}

TEST_F(KeeperTest, WhatCannotBeCompactedNowIsLater) {
  erase();
  must(db_->PauseBackgroundWork());
  clock_.advance(Erased::kRest);
  ASSERT_TRUE(test::until([&] { return !keeper_.idle(); }));
  EXPECT_TRUE(tables_left());
  must(db_->ContinueBackgroundWork());
  EXPECT_TRUE(happens(reclaims_, 1));
  EXPECT_FALSE(tables_left());
  EXPECT_TRUE(test::until([&] { return keeper_.idle(); }));
}

TEST_F(KeeperTest, ItsEndLeavesWhatRestsToTheNextStart) {
  erase();
  keeper_.stop();
  EXPECT_EQ(flushes_, 0);
  EXPECT_TRUE(tables_left());
  start();
  clock_.advance(Erased::kRest);
  EXPECT_TRUE(happens(reclaims_, 1));
  EXPECT_FALSE(tables_left());
}

TEST_F(KeeperTest, FinishingWaitsForNoTime) {
  erase();
  keeper_.finish();
  EXPECT_EQ(reclaims_, 1);
  EXPECT_FALSE(tables_left());
}

TEST_F(KeeperTest, WhoWaitsForSpaceGetsWhatWasErasedAtOnce) {
  erase();
  keeper_.want_space();
  EXPECT_TRUE(happens(reclaims_, 1));
  EXPECT_FALSE(tables_left());
  ASSERT_TRUE(clock_.await_waiting(1));
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(reclaims_, 1);
}

TEST_F(KeeperTest, WhoWaitsForSpaceGetsWhatIsWorstWhenNothingWasErased) {
  // RocksDB may still count the compaction that made the tables: who waits asks again.
  EXPECT_TRUE(test::until([&] {
    keeper_.want_space();
    return asked_for_worst_ >= 1;
  }));
  ASSERT_TRUE(clock_.await_waiting(1));
  EXPECT_EQ(reclaims_, 0) << "nothing is bad";
  must(db_->DeleteRange({}, db_->DefaultColumnFamily(), number_key(0), number_key(kRows)));  // nobody noted it
  set_worst();
  EXPECT_TRUE(test::until([&] {
    keeper_.want_space();
    return reclaims_ >= 1;
  }));
  EXPECT_FALSE(tables_left());
}

// RocksDB has the new tables before it tells of them, and who waits for space may look in between.
TEST_F(KeeperTest, WhatHasSunkIsHeardOfAlsoIfItIsSeenBeforeItIsTold) {
  listener_->told.shut();
  must(db_->DeleteRange({}, db_->DefaultColumnFamily(), number_key(0), number_key(kRows)));
  set_worst();
  EXPECT_TRUE(test::until([&] {
    keeper_.want_space();
    return !tables_left() && reclaims_ >= 1;
  }));
  EXPECT_TRUE(listener_->told.await(1));
  EXPECT_EQ(reclaims_, 1);
  listener_->told.open();
}

TEST_F(KeeperTest, NothingIsDoneOnceWritingHasStopped) {
  erase();
  fail_stop_.set(make_error(EIO, "planted"));
  ASSERT_TRUE(clock_.step(Erased::kRest));
  keeper_.want_flush();
  ASSERT_TRUE(clock_.step(24h));
  EXPECT_EQ(flushes_, 0);
  EXPECT_TRUE(tables_left());
}

}  // namespace
}  // namespace lsmfs::keeper_test
