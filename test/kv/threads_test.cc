#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "base/watched.h"
#include "gate.h"
#include "kv/support.h"
#include "until.h"
#include "volume/superblock.h"

namespace lsmfs::threads_test {
namespace {

using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::number_key;
using test::Gate;
using test::until;
using test::WatchedThread;

TEST(Threads, CommitsSyncsReadsAndFlushesTogether) {
  auto m = Machine::fresh(256 * MiB);
  constexpr int kWriters = 4;
  constexpr int kCommits = 400;
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  std::atomic<int> running = kWriters;
  for (int w = 0; w < kWriters; ++w) {
    threads.emplace_back([&, w] {
      std::mt19937_64 random(static_cast<std::uint64_t>(w));
      for (int i = 1; i <= kCommits; ++i) {
        Batch batch;
        batch.put(Family::names, number_key(w), std::to_string(i));
        batch.put(Family::blocks, number_key(w), std::to_string(i));
        batch.put(Family::blocks, number_key(100 + random() % 5000), kv_test::random_bytes(random, 4096));
        expect_ok(m.store->commit(batch));
        if (i % 10 == 0) expect_ok(m.store->sync());
      }
      --running;
    });
  }
  threads.emplace_back([&] {
    while (!stop) {
      for (int w = 0; w < kWriters; ++w) {
        const auto first = m.store->get(Family::names, number_key(w), Wait::yes);
        const auto second = m.store->get(Family::blocks, number_key(w), Wait::yes);
        ASSERT_TRUE(first.has_value() && second.has_value());
        const int a = *first ? std::stoi(**first) : 0;
        const int b = *second ? std::stoi(**second) : 0;
        EXPECT_LE(a, b) << "the second was read later and is never older";
      }
      auto cursor = m.store->cursor(Family::blocks, {});
      for (cursor->seek(""); cursor->valid(); cursor->next()) {
      }
      expect_ok(cursor->status());
      (void)m.store->room();
      (void)m.store->space();
      (void)m.store->stats();
    }
  });
  threads.emplace_back([&] {
    while (!stop) {
      expect_ok(m.store->flush());
      expect_ok(m.store->compact(Family::blocks, number_key(0), number_key(1000)));
    }
  });
  threads.emplace_back([&] {
    while (!stop) EXPECT_GT(kv_test::trim(*m.store), 0u);
  });
  while (running > 0) std::this_thread::yield();
  stop = true;
  for (auto& thread : threads) thread.join();
  m.stop();
  m.start();
  for (int w = 0; w < kWriters; ++w) {
    const auto value = m.store->get(Family::names, number_key(w), Wait::yes);
    ASSERT_TRUE(value.has_value() && value->has_value());
    EXPECT_EQ(**value, std::to_string(kCommits));
  }
}

void commit_and_sync(Store& store, std::uint64_t key, const std::function<void()>& committed = [] {}) {
  Batch batch;
  batch.put(Family::names, number_key(key), "x");
  expect_ok(store.commit(batch));
  committed();
  expect_ok(store.sync());
}

TEST(Threads, SyncsAtTheSameTimeShareADeviceFlush) {
  auto m = Machine::fresh();
  constexpr std::uint64_t kThreads = 8;
  Gate gate;
  commit_and_sync(*m.store, 0);  // the first sync makes durable that there is a log, too
  m.disk->on_flush = [&] { gate.pass(); };
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before = m.disk->flushes;
    gate.shut();
    std::atomic<std::uint64_t> committed = 0;
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] { commit_and_sync(*m.store, t, [&] { ++committed; }); });
      const bool begun = t > 0 || gate.await(1);
      EXPECT_TRUE(begun);
    }
    // All but the first have something that its flush does not cover.
    EXPECT_TRUE(until([&] { return committed == kThreads; }));
    gate.open();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(m.disk->flushes - before, 2u) << "round " << round;
  }
  m.stop();
}

// What was committed while a flush was under way is not durable by it.
TEST(Threads, ASyncThatComesDuringADeviceFlushHasOneOfItsOwn) {
  auto m = Machine::fresh();
  Gate gate;
  m.disk->on_flush = [&] { gate.pass(); };
  const std::uint64_t before = m.disk->flushes;
  std::thread first([&] { commit_and_sync(*m.store, 1); });
  EXPECT_TRUE(gate.await(1));
  WatchedThread second([&] { commit_and_sync(*m.store, 2); });
  EXPECT_TRUE(second.await("a sync of the log"));
  gate.open();
  first.join();
  second.join();
  EXPECT_GE(m.disk->flushes - before, 2u);
  m.drop();
}

// A flush may wait for the space of just these.
TEST(Threads, TablesThatAReaderLetsGoOfAreRemovedDuringAFlush) {
  auto m = Machine::fresh();
  Gate gate(/*open=*/true);
  const Extent region = plan_layout(kDeviceMin)->table;
  m.disk->on_write = [&](ByteOffset at, Bytes) {
    if (at.v >= region.start && at.v < region.end()) gate.pass();
  };
  const auto put = [&] {
    Batch batch;
    for (std::uint64_t row = 0; row < 10; ++row) batch.put(Family::blocks, number_key(row), "x");
    expect_ok(m.store->commit(batch));
  };
  for (int table = 0; table < 2; ++table) {
    put();
    expect_ok(m.store->flush());
  }
  const auto merged = kv_test::tables_of(*m.volume);
  auto cursor = m.store->cursor(Family::blocks, {});
  cursor->seek("");
  expect_ok(m.store->compact(Family::blocks, "", ""));
  put();
  gate.shut();
  std::thread flush([&] { expect_ok(m.store->flush()); });
  EXPECT_TRUE(gate.await(1));
  EXPECT_TRUE(std::ranges::includes(kv_test::tables_of(*m.volume), merged)) << "a cursor reads them";
  cursor.reset();
  EXPECT_TRUE(until([&] { return std::ranges::none_of(merged, [&](const auto& name) { return m.volume->exists(name); }); }));
  gate.open();
  flush.join();
  m.stop();
}

TEST(Threads, AFailureInTheMiddleOfManyCommitsIsSeenByAllAndAbortsNothing) {
  for (std::uint64_t round = 0; round < 6; ++round) {
    auto m = Machine::fresh();
    std::vector<std::thread> threads;
    std::atomic<int> failed = 0;
    m.disk->fail_writes_from = m.disk->writes + m.disk->flushes + 5 + round * 7;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937_64 random(static_cast<std::uint64_t>(t));
        for (int i = 0; i < 100000; ++i) {
          Batch batch;
          batch.put(Family::blocks, number_key(random()), kv_test::random_bytes(random, 4096));
          auto done = m.store->commit(batch);
          if (done && i % 5 == t) done = m.store->sync();
          if (!done) {
            ++failed;
            break;
          }
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(failed, 4);
    EXPECT_FALSE(m.store->sync().has_value());
    m.drop();
  }
}

}  // namespace
}  // namespace lsmfs::threads_test
