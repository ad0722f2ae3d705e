// The waits of the space gauge, over a real database on a volume, on a clock that the tests move.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <random>
#include <thread>

#include "clock.h"
#include "gate.h"
#include "kv/database.h"
#include "kv/fail_stop.h"
#include "kv/space.h"
#include "kv/status.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::gauge_test {
namespace {

using namespace std::chrono_literals;
using kv_test::assert_ok;
using test::SteppedClock;

constexpr auto kSlice = 50ms, kLook = 500ms;  // how often a commit looks, and a compaction

// Flushes and compactions begin when its gates are open.
struct Holding final : rocksdb::EventListener {
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override {
    const bool passed = flushes.pass();
    EXPECT_TRUE(passed);
  }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    const bool passed = compactions.pass();
    EXPECT_TRUE(passed);
  }
  test::Gate flushes{true}, compactions{true};
};

class Gauge : public testing::Test {
 protected:
  explicit Gauge(std::uint64_t size = kDeviceMin) : disk_(size) {}
  void SetUp() override {
    assert_ok(disk_.format());
    auto volume = Volume::open(disk_.device());
    ASSERT_TRUE(volume);
    volume_ = std::move(*volume);
    sizing_ = kv::Sizing::plan(volume_->usage(), ByteCount{64 * MiB});
    database_.emplace(*volume_, sizing_, fail_stop_, way_, set_aside_, kv::Database::Options{true, listener_, [](std::string_view) {}, &clock_});
    assert_ok(database_->open(false));
    gauge_.emplace(*volume_, sizing_, fail_stop_, way_, merges_, blob_space_, clock_, [] {}, [] {}, [](Clock::Time) {}, [this](std::string_view) { ++notices_; });
    gauge_->start(&database_->db(), database_->handles());
  }
  // Leaves about so much of the tables' space.
  void take_space_but(std::uint64_t left) {
    auto writer = volume_->create("ballast", FileKind::table);
    ASSERT_TRUE(writer);
    assert_ok((*writer)->reserve(ByteCount{round_down(volume_->usage().table_free.v - left, kTableGranule)}));
    assert_ok((*writer)->append(as_bytes(std::string(kDeviceBlock, 'b'))));
    assert_ok((*writer)->sync());
    ballast_ = std::move(*writer);
  }
  void give_space_back() {
    ballast_.reset();
    assert_ok(volume_->remove("ballast"));
    assert_ok(volume_->commit());
  }
  void await_wait() { ASSERT_TRUE(clock_.await_waiting(1)); }  // of the caller: nobody else waits by this clock

  kv_test::Disk disk_;
  const std::shared_ptr<Holding> listener_ = std::make_shared<Holding>();
  SteppedClock clock_;
  kv::FailStop fail_stop_{[](std::string_view) {}};
  kv::GiveWay way_{clock_};
  kv::SetAside set_aside_;
  kv::Merges merges_{64 * MiB};
  kv::BlobSpace blob_space_;
  std::unique_ptr<Volume> volume_;
  kv::Sizing sizing_;
  std::optional<kv::Database> database_;
  std::optional<kv::SpaceGauge> gauge_;
  std::unique_ptr<FileWriter> ballast_;
  std::atomic<int> notices_ = 0;
};

// A call that waits, in a thread of its own.
class Caller {
 public:
  Caller(SteppedClock& clock, std::function<Result<void>()> call) : clock_(clock), thread_([this, call = std::move(call)] {
    result_ = call();
    ended_ = true;
  }) {}
  ~Caller() { clock_.advance(1h); }  // whatever is wrong, it does not wait any more
  bool waits() const { return !ended_; }
  bool ends() const {
    return test::until([this] { return ended_.load(); });
  }
  int code() const { return result_ ? 0 : result_.error().code; }  // when it has ended

 private:
  SteppedClock& clock_;
  Result<void> result_;
  std::atomic<bool> ended_ = false;
  std::jthread thread_;
};

class Commit : public Caller {
 public:
  Commit(SteppedClock& clock, kv::SpaceGauge& gauge) : Caller(clock, [&gauge] { return gauge.admit(1000); }) {}
};

// One that begins.
class Compaction : public Caller {
 public:
  Compaction(SteppedClock& clock, kv::SpaceGauge& gauge) : Caller(clock, [&gauge]() -> Result<void> {
    gauge.compaction_begins();
    return {};
  }) {}
};

TEST_F(Gauge, ACommitThatFindsSpaceDoesNotWait) {
  const Commit commit(clock_, *gauge_);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

TEST_F(Gauge, ACommitWaitsForSpaceAndGoesOnWhenItIsThere) {
  take_space_but(MiB);
  clock_.advance(1s);  // what was measured is old
  const Commit commit(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(30s));
  EXPECT_TRUE(commit.waits());
  give_space_back();
  clock_.advance(kSlice);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

TEST_F(Gauge, AFlushThatEndsIsSeenAtOnce) {
  take_space_but(MiB);
  clock_.advance(1s);
  const Commit commit(clock_, *gauge_);
  await_wait();
  give_space_back();
  gauge_->flush_ended(Family::blocks, MiB, 0);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

// RocksDB's own brakes decide then.
TEST_F(Gauge, ACommitGivesUpAfterAMinuteInWhichNothingEnds) {
  take_space_but(MiB);
  clock_.advance(1s);
  const Commit commit(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(50s));
  gauge_->tables_changed();  // a compaction has ended
  ASSERT_TRUE(clock_.step(kSlice, 1));  // it has just been woken, and may not wait at the moment
  ASSERT_TRUE(clock_.step(59s));
  EXPECT_TRUE(commit.waits());
  clock_.advance(2s);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

// On a slow or busy machine a merge may take longer. What commits took meanwhile would be missing where it writes.
TEST_F(Gauge, ACommitWaitsForACompactionHoweverLongThatTakes) {
  for (int i = 0; i < 2; ++i) {
    assert_ok(kv::to_result(database_->db().Put({}, database_->handle(Family::blocks), "row", "value"), "put"));
    assert_ok(kv::to_result(database_->db().Flush({}, database_->handle(Family::blocks)), "flush"));
  }
  listener_->compactions.shut();
  std::jthread compaction([&] {
    assert_ok(kv::to_result(database_->db().CompactRange({}, database_->handle(Family::blocks), nullptr, nullptr), "compaction"));
  });
  ASSERT_TRUE(listener_->compactions.await(1));
  take_space_but(MiB);
  clock_.advance(1s);
  const Commit commit(clock_, *gauge_);
  await_wait();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(clock_.step(50s));
  EXPECT_TRUE(commit.waits());
  listener_->compactions.open();
  compaction.join();
  // RocksDB lets the caller go before it counts the work as ended.
  ASSERT_TRUE(test::until([&] { return !kv::is_running(database_->db(), database_->handles()); }));
  ASSERT_TRUE(clock_.step(50s));
  EXPECT_TRUE(commit.waits());
  clock_.advance(61s);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

class GaugeOfALargeLevel : public Gauge {
 protected:
  explicit GaugeOfALargeLevel(std::uint64_t size = 256 * MiB) : Gauge(size) {}
  // Puts `bytes` of further blocks into tables of level 0. A memtable at a time: who is ahead of flushes is slowed down by RocksDB, and
  // this clock stands still.
  void flush_tables(std::uint64_t bytes) {
    rocksdb::DB& db = database_->db();
    const std::uint64_t piece = sizing_.blocks_memtable / 2 / kDeviceBlock;
    for (const std::uint64_t end = row_ + bytes / kDeviceBlock; row_ < end;) {
      for (const std::uint64_t to = std::min(end, row_ + piece); row_ < to; ++row_) {
        assert_ok(kv::to_result(db.Put({}, blocks(), kv_test::number_key(row_), kv_test::random_bytes(random_, kDeviceBlock)), "put"));
      }
      assert_ok(kv::to_result(db.Flush({}, blocks()), "flush"));
    }
  }
  void compact_by_itself(bool on) {
    assert_ok(kv::to_result(database_->db().SetOptions(blocks(), {{"disable_auto_compactions", on ? "false" : "true"}}), "options"));
  }
  rocksdb::ColumnFamilyMetaData facts() {
    rocksdb::ColumnFamilyMetaData found;
    database_->db().GetColumnFamilyMetaData(blocks(), &found);
    return found;
  }
  int last_level() { return facts().levels.back().level; }
  // All tables of level 0.
  void compact_to(int level) {
    const auto found = facts();
    std::vector<std::string> files;
    for (const auto& table : found.levels[0].files) files.push_back(table.name);
    rocksdb::CompactionOptions options;
    options.output_file_size_limit = sizing_.table;
    assert_ok(kv::to_result(database_->db().CompactFiles(options, blocks(), files, level), "compaction"));
  }
  rocksdb::ColumnFamilyHandle* blocks() { return database_->handle(Family::blocks); }
  std::uint64_t base_level() {
    std::uint64_t level = 0;
    EXPECT_TRUE(database_->db().GetIntProperty(blocks(), rocksdb::DB::Properties::kBaseLevel, &level));
    return level;
  }

 private:
  std::uint64_t row_ = 0;
  std::mt19937_64 random_{1};
};

// While a level over the last one is the largest, level 0 goes to a level above it. Merges soon make it smaller, and level 0 goes to
// it again, all of it at once.
TEST_F(GaugeOfALargeLevel, IsLeftTheSpaceThatItsMergeWithLevel0Needs) {
  compact_by_itself(false);
  for (int i = 0; i < 6; ++i) flush_tables(16 * MiB);
  const int level = last_level() - 1;
  compact_to(level);
  ASSERT_LT(base_level(), static_cast<std::uint64_t>(level));
  flush_tables(2 * MiB);
  take_space_but(90 * MiB);
  gauge_->measure_tables();
  const Commit commit(clock_, *gauge_);
  await_wait();
  give_space_back();
  clock_.advance(kSlice);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), 0);
}

class GaugeOfAFullVolume : public GaugeOfALargeLevel {
 protected:
  GaugeOfAFullVolume() : GaugeOfALargeLevel(kDeviceMin) {}
  // Puts tables into the last level until they leave about so much.
  void leave(std::uint64_t bytes) {
    compact_by_itself(false);
    while (volume_->usage().table_free.v >= bytes + 2 * sizing_.blocks_memtable) {
      flush_tables(sizing_.blocks_memtable);
      compact_to(last_level());
      assert_ok(volume_->commit());
    }
    gauge_->measure_tables();
  }
};

// Commits do not take the space of what merges that run keep, if it is more than the reserve has.
TEST_F(GaugeOfAFullVolume, HasCommitsWaitForMergesThatKeepMoreThanTheReserveHas) {
  leave(sizing_.working + sizing_.merging / 2);
  merges_.chosen(sizing_.merging);
  ASSERT_TRUE(Commit(clock_, *gauge_).ends());
  merges_.chosen(2 * sizing_.merging);
  clock_.advance(1s);  // what was measured is old
  const Commit commit(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(30s));
  EXPECT_TRUE(commit.waits());
  merges_.ended(true);
  clock_.advance(kSlice);
  EXPECT_TRUE(commit.ends());
}

// Where tables leave much, merges run beside each other; on a full volume, as the reserve is made for.
TEST_F(GaugeOfAFullVolume, SaysWhatSpaceThereIsForMerges) {
  std::atomic<bool> runs = false;
  merges_.chosen(sizing_.merging);
  std::jthread([&] { merges_.await_turn(); merges_.ended(false); }).join();
  leave(sizing_.working);
  std::jthread next([&] {
    merges_.await_turn();
    runs = true;
    merges_.ended(false);
  });
  EXPECT_FALSE(runs);
  merges_.ended(true);
  EXPECT_TRUE(test::until([&] { return runs.load(); }));
}

TEST_F(Gauge, ACommitThatWaitsHearsThatWritingHasStopped) {
  take_space_but(MiB);
  clock_.advance(1s);
  const Commit commit(clock_, *gauge_);
  await_wait();
  fail_stop_.set(make_error(EIO, "planted"));
  clock_.advance(kSlice);
  EXPECT_TRUE(commit.ends());
  EXPECT_EQ(commit.code(), EIO);
}

TEST_F(Gauge, ACompactionAfterOneThatFoundNoSpaceWaitsWhileItWouldMeetTheSameEnd) {
  EXPECT_TRUE(Compaction(clock_, *gauge_).ends());
  gauge_->compaction_begins();
  gauge_->compaction_starved();
  EXPECT_EQ(notices_, 1);
  gauge_->measure_tables();
  EXPECT_EQ(gauge_->room().v, 0u);
  const Compaction compaction(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(10s));
  ASSERT_TRUE(clock_.step(9s));
  EXPECT_TRUE(compaction.waits());
  clock_.advance(1s);
  EXPECT_TRUE(compaction.ends()) << "it does not wait for ever";
}

TEST_F(Gauge, SuchACompactionBeginsWhenThereIsMoreSpace) {
  take_space_but(MiB);
  gauge_->compaction_begins();
  gauge_->compaction_starved();
  const Compaction compaction(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(kLook));
  EXPECT_TRUE(compaction.waits());
  give_space_back();
  clock_.advance(kLook);
  EXPECT_TRUE(compaction.ends());
}

// A flush keeps the tables alive that there were when it began, also those that have been merged since.
TEST_F(Gauge, OnAFullVolumeACompactionWaitsForTheFlushThatRuns) {
  assert_ok(kv::to_result(database_->db().Put({}, database_->handle(Family::blocks), "row", "value"), "put"));
  take_space_but(sizing_.working - MiB);
  listener_->flushes.shut();
  std::jthread flush([&] { assert_ok(kv::to_result(database_->db().Flush({}, database_->handle(Family::blocks)), "flush")); });
  ASSERT_TRUE(listener_->flushes.await(1));
  const Compaction compaction(clock_, *gauge_);
  await_wait();
  ASSERT_TRUE(clock_.step(kLook));
  EXPECT_TRUE(compaction.waits());
  listener_->flushes.open();
  flush.join();
  ASSERT_TRUE(test::until([&] { return !kv::is_flushing(database_->db(), database_->handles()); }));
  clock_.advance(kLook);
  EXPECT_TRUE(compaction.ends());
}

// RocksDB begins with one while it is being opened, if there is one to do.
TEST_F(Gauge, OnAFullVolumeACompactionBeginsWhileTheDatabaseIsOpenedOrClosed) {
  take_space_but(sizing_.working - MiB);
  gauge_->end();
  EXPECT_TRUE(Compaction(clock_, *gauge_).ends());
}

TEST_F(Gauge, WhereThereIsSpaceItBeginsBesideAFlush) {
  assert_ok(kv::to_result(database_->db().Put({}, database_->handle(Family::blocks), "row", "value"), "put"));
  listener_->flushes.shut();
  std::jthread flush([&] { assert_ok(kv::to_result(database_->db().Flush({}, database_->handle(Family::blocks)), "flush")); });
  ASSERT_TRUE(listener_->flushes.await(1));
  EXPECT_TRUE(Compaction(clock_, *gauge_).ends());
  listener_->flushes.open();
}

TEST_F(Gauge, SuchACompactionBeginsWhenItsEndIsAwaited) {
  gauge_->compaction_begins();
  gauge_->compaction_starved();
  const Compaction compaction(clock_, *gauge_);
  await_wait();
  const kv::GiveWay::Hurry hurry(way_);
  clock_.advance(kLook);
  EXPECT_TRUE(compaction.ends());
}

TEST_F(Gauge, OneThatSucceedsEndsTheStarving) {
  gauge_->compaction_begins();
  gauge_->compaction_starved();
  gauge_->compaction_starved();
  EXPECT_EQ(notices_, 1) << "once";
  gauge_->compaction_succeeded(MiB, 1s);
  gauge_->measure_tables();
  EXPECT_GT(gauge_->room().v, 50 * MiB);
  EXPECT_TRUE(Compaction(clock_, *gauge_).ends());
}

}  // namespace
}  // namespace lsmfs::gauge_test
