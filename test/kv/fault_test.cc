#include <gtest/gtest.h>

#include <random>

#include "kv/history.h"
#include "kv/support.h"
#include "seed.h"

namespace lsmfs::fault_test {
namespace {

using kv_test::Disk;
using kv_test::History;
using kv_test::Machine;

struct Outcome {
  std::uint64_t committed = 0;  // commits that returned success
  std::uint64_t synced = 0;     // of those, the ones a successful sync covers
  bool failed = false;
};

// Commits, syncs, flushes and compacts until something fails.
Outcome work(Store& store, const History& history) {
  Outcome outcome;
  Batch batch;
  for (std::uint64_t n = 1; n <= 60 && !outcome.failed; ++n) {
    batch.clear();
    history.commit(n, &batch, nullptr);
    if (!store.commit(batch)) {
      outcome.failed = true;
      break;
    }
    outcome.committed = n;
    Result<void> done;
    if (n % 7 == 0) done = store.sync();
    if (done && n % 7 == 0) outcome.synced = n;
    if (done && n % 20 == 0) done = store.flush();
    if (done && n == 40) done = store.compact(Family::blocks, "", "");
    outcome.failed = !done.has_value();
  }
  return outcome;
}

// Runs the work with the device failing from its n-th write or flush on, for every `stride`-th n
// from a random one on: RocksDB sleeps for a second after each failed flush.
void fail_at_requests(int code, std::uint64_t stride) {
  const std::uint64_t seed = test::drawn_seed();
  std::mt19937_64 random(seed);
  const History history(seed);
  auto base = Machine::fresh();
  base.stop();
  int failures = 0;
  for (std::uint64_t n = 1 + random() % stride;; n += stride) {
    SCOPED_TRACE("request " + std::to_string(n));
    auto disk = base.disk->copy();
    disk->watch_flushes();
    disk->fail_code = code;
    disk->fail_writes_from = n;
    Machine m;
    m.disk = std::move(disk);
    auto volume = Volume::open(m.disk->device());
    Outcome outcome{.failed = true};
    if (volume) {
      m.volume = std::move(*volume);
      if (auto store = Store::open(*m.volume, kv_test::quiet_options())) {
        m.store = std::move(*store);
        outcome = work(*m.store, history);
        if (outcome.failed) {
          Batch batch;
          batch.put(Family::names, "after", "the failure");
          const auto again = m.store->commit(batch);
          ASSERT_FALSE(again.has_value());
          EXPECT_EQ(again.error().code, code) << again.error().message();
          EXPECT_FALSE(m.store->sync().has_value());
          EXPECT_FALSE(m.store->flush().has_value());
          const auto read = m.store->get(Family::names, "last", Wait::yes);
          ASSERT_TRUE(read.has_value()) << read.error().message();
          if (random() % 2 == 0) {
            EXPECT_FALSE(m.store->close().has_value());
          }
        }
      }
    }
    auto after = m.disk->crashed_copy(random);
    m.drop();
    auto again = Machine::on(std::move(after));
    ASSERT_TRUE(again.store);
    EXPECT_GE(history.check(*again.store), outcome.synced);
    again.stop();
    ASSERT_FALSE(testing::Test::HasFailure());
    if (!outcome.failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 5);
}

TEST(Fault, AFailedWriteOrFlushAtAnyRequestIsStickyAndLosesNothingSynced) { fail_at_requests(EIO, 3); }
TEST(Fault, ADeviceThatReportsNoSpaceIsNoDifferent) { fail_at_requests(ENOSPC, 13); }

TEST(Fault, AFailedFlushBeforeATrimIsSticky) {
  auto m = Machine::fresh();
  Batch batch;
  batch.put(Family::blocks, "a", std::string(100, 'x'));
  kv_test::assert_ok(m.store->commit(batch));
  kv_test::expect_ok(m.store->sync());
  // As a table that nobody reads any more: a trim makes its end durable first.
  EXPECT_TRUE(m.volume->create("obsolete", FileKind::table));
  kv_test::expect_ok(m.volume->remove("obsolete"));
  m.disk->fail_writes_from = 1;
  EXPECT_FALSE(m.store->trim({}, [] { return false; }));
  m.disk->fail_writes_from = 0;
  EXPECT_FALSE(m.store->sync());
  EXPECT_FALSE(m.store->commit(batch));
  m.drop();
}

TEST(Fault, AReadErrorIsReportedAndStopsWriting) {
  auto m = Machine::fresh();
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    Batch batch;
    batch.put(Family::blocks, kv_test::number_key(i), kv_test::random_bytes(random, 4096));
    kv_test::assert_ok(m.store->commit(batch));
  }
  kv_test::expect_ok(m.store->compact(Family::blocks, "", ""));
  m.stop();
  m.start();
  auto cursor = m.store->cursor(Family::blocks, {});
  cursor->seek("");
  ASSERT_TRUE(cursor->valid());
  m.disk->fail_reads_from = m.disk->reads + 1;
  const auto got = m.store->get(Family::blocks, kv_test::number_key(500), Wait::yes);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code, EIO);
  EXPECT_FALSE(cursor->valid());
  EXPECT_FALSE(cursor->status().has_value());
  Batch batch;
  batch.put(Family::names, "a", "b");
  EXPECT_FALSE(m.store->commit(batch).has_value());
  m.disk->fail_reads_from = 0;
  const auto later = m.store->get(Family::blocks, kv_test::number_key(500), Wait::yes);
  EXPECT_TRUE(later.has_value() && later->has_value());
}

TEST(Fault, APassingReadErrorIsNotSeen) {
  auto m = Machine::fresh();
  Batch batch;
  batch.put(Family::blocks, "a", std::string(100, 'x'));
  kv_test::assert_ok(m.store->commit(batch));
  m.stop();
  m.start();
  m.disk->fail_reads_from = m.disk->reads + 1;
  m.disk->fail_reads_to = m.disk->reads + 2;
  const auto got = m.store->get(Family::blocks, "a", Wait::yes);
  EXPECT_TRUE(got.has_value() && got->has_value());
}

}  // namespace
}  // namespace lsmfs::fault_test
