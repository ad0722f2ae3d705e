// Rows that come in bulk are like others once their writer has finished, and after a crash never without what was committed before them.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "kv/bulk.h"
#include "kv/store.h"
#include "kv/support.h"
#include "noise.h"
#include "seed.h"

namespace lsmfs::bulk_test {
namespace {

using kv_test::assert_ok;
using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::number_key;

std::string value_of(std::uint64_t n) {
  std::string value(4096, '\0');
  test::fill_with_noise(n, value);
  return value;
}

// A commit that says of rows of blocks, so many of which there are then.
void say(Store& store, std::uint64_t n, std::uint64_t rows) {
  Batch batch;
  batch.put(Family::names, number_key(n), "there is such a row");
  batch.note_rows(rows, 1);
  assert_ok(store.commit(batch));
}

void put(Store& store, BulkWriter& writer, std::uint64_t n, std::uint64_t rows) {
  say(store, n, rows);
  expect_ok(writer.wait());
  writer.put(number_key(n), value_of(n));
}

std::map<std::uint64_t, std::string> rows_of(Store& store, Family family) {
  std::map<std::uint64_t, std::string> rows;
  const auto cursor = store.cursor(family, {});
  for (cursor->seek("k"); cursor->valid() && cursor->key().starts_with("k"); cursor->next()) {
    rows.emplace(Reader(cursor->key().substr(1)).be64(), cursor->value());
  }
  expect_ok(cursor->status());
  return rows;
}

bool has_bulk_files(const Volume& volume) {
  return std::ranges::any_of(volume.list(), [](const std::string& name) { return name.starts_with(kv::kBulkPrefix); });
}

// Much more than waits in memory, and several tables of a small volume.
constexpr std::uint64_t kMany = 8000;

std::vector<std::uint64_t> numbers(std::uint64_t count) {
  std::vector<std::uint64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// All of these rows come, and are there, also after a remount.
void expect_there(const std::vector<std::uint64_t>& order, const std::function<void(Store&)>& look) {
  auto m = Machine::fresh(256 * MiB);
  m.store->note_rows(0);
  auto writer = m.store->bulk_writer();
  ASSERT_TRUE(writer);
  std::uint64_t rows = 0;
  for (const std::uint64_t n : order) put(*m.store, *writer, n, ++rows);
  expect_ok(writer->finish());
  writer.reset();
  EXPECT_FALSE(has_bulk_files(*m.volume));
  look(*m.store);
  for (int mounts = 0; mounts < 2; ++mounts) {
    const auto there = rows_of(*m.store, Family::blocks);
    ASSERT_EQ(there.size(), order.size());
    for (const auto& [n, value] : there) ASSERT_EQ(value, value_of(n)) << n;
    m.stop();
    m.start();
    ASSERT_TRUE(m.store);
  }
}

// So much comes through the log with the commit that says of a row.
void expect_past_the_log(Store& store) { EXPECT_LE(store.activity().committed_bytes, kMany * 200); }

TEST(Bulk, RowsInOrderBecomeTablesSideBySide) {
  expect_there(numbers(kMany), [](Store& store) {
    std::uint64_t tables = 0;
    for (const auto& level : store.stats().levels) {
      EXPECT_GT(level.level, 0) << "a table lies over others";
      tables += level.files;
    }
    EXPECT_GT(tables, 2u);
    expect_past_the_log(store);
    EXPECT_EQ(store.activity().compactions, 0u);
  });
}

TEST(Bulk, RowsThatComeALittleOutOfOrderDoSo) {
  std::mt19937_64 random(test::drawn_seed());
  auto order = numbers(kMany);
  for (std::size_t at = 0; at + 50 < order.size(); at += 25) std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(at), order.begin() + static_cast<std::ptrdiff_t>(at + 50), random);
  expect_there(order, [](Store& store) {
    for (const auto& level : store.stats().levels) EXPECT_GT(level.level, 0) << "a table lies over others";
    expect_past_the_log(store);
  });
}

TEST(Bulk, RowsInAnyOrderAreThere) {
  std::mt19937_64 random(test::drawn_seed());
  auto order = numbers(kMany);
  std::shuffle(order.begin(), order.end(), random);
  expect_there(order, expect_past_the_log);
}

TEST(Bulk, FewRowsComeAsAllOthers) {
  const auto has_no_table = [](Store& store) { EXPECT_TRUE(store.stats().levels.empty()); };
  expect_there({}, has_no_table);
  expect_there({7}, has_no_table);
  expect_there(numbers(100), has_no_table);
}

TEST(Bulk, FewRowsTakeTheRoomOfAllOthers) {
  auto m = Machine::fresh();
  m.store->note_rows(0);
  const std::uint64_t before = m.store->room().v;
  const auto writer = m.store->bulk_writer();
  for (std::uint64_t n = 0; n < 100; ++n) put(*m.store, *writer, n, n + 1);
  expect_ok(writer->finish());
  const auto taken = [&] { return static_cast<double>(before - m.store->room().v); };
  EXPECT_NEAR(taken(), 100 * 4096, 64 * KiB);
  expect_ok(m.store->flush());
  EXPECT_NEAR(taken(), 100 * 4096, 64 * KiB);
  EXPECT_EQ(m.store->room().rows, 100u);
}

TEST(Bulk, WhatIsWrittenOverLaterIsNewer) {
  auto m = Machine::fresh(256 * MiB);
  const auto writer = m.store->bulk_writer();
  for (std::uint64_t n = 0; n < kMany; ++n) put(*m.store, *writer, n, n + 1);
  expect_ok(writer->finish());
  Batch batch;
  batch.put(Family::blocks, number_key(3), "new");
  batch.patch(Family::blocks, number_key(4), 1, "patched");
  batch.erase(Family::blocks, number_key(5));
  batch.erase_range(Family::blocks, number_key(6), number_key(50), 44);
  assert_ok(m.store->commit(batch));
  for (int flushes = 0; flushes < 2; ++flushes) {
    const auto there = rows_of(*m.store, Family::blocks);
    EXPECT_EQ(there.size(), kMany - 45);
    EXPECT_EQ(there.at(3), "new");
    EXPECT_EQ(there.at(4).substr(0, 8), value_of(4).substr(0, 1) + "patched");
    expect_ok(m.store->flush());
  }
}

// Of each row that is there after a power cut its commit is, too. So nobody has to look for others.
TEST(Bulk, AfterAPowerCutNoRowIsThereWithoutWhatWasCommittedBeforeIt) {
  std::mt19937_64 random(test::drawn_seed());
  std::uint64_t some = 0;
  for (int trial = 0; trial < 12; ++trial) {
    auto disk = std::make_unique<kv_test::Disk>(256 * MiB);
    ASSERT_NO_FATAL_FAILURE(assert_ok(disk->format()));
    disk->watch_flushes();
    auto m = Machine::on(std::move(disk));
    ASSERT_TRUE(m.store);
    auto writer = m.store->bulk_writer();
    const std::uint64_t until = random() % (2 * kMany);
    const bool finishes = random() % 4 == 0;
    std::uint64_t rows = 0;
    for (std::uint64_t n = 0; n < until; ++n) put(*m.store, *writer, n, ++rows);
    if (finishes) expect_ok(writer->finish());
    auto after = m.disk->crashed_copy(random);
    writer.reset();
    m.drop();
    auto again = Machine::on(std::move(after));
    ASSERT_TRUE(again.store);
    EXPECT_FALSE(has_bulk_files(*again.volume));
    const auto names = rows_of(*again.store, Family::names), blocks = rows_of(*again.store, Family::blocks);
    for (const auto& [n, value] : blocks) {
      ASSERT_EQ(value, value_of(n));
      ASSERT_TRUE(names.contains(n)) << n;
    }
    EXPECT_TRUE(!finishes || blocks.size() == until);
    some += blocks.size();
    again.stop();
  }
  EXPECT_GT(some, 0u) << "nothing was tried";
}

TEST(Bulk, NothingComesAfterItWasAbandoned) {
  auto m = Machine::fresh(256 * MiB);
  auto writer = m.store->bulk_writer();
  for (std::uint64_t n = 0; n < kMany; ++n) put(*m.store, *writer, n, n + 1);
  writer->abandon();
  const std::size_t there = rows_of(*m.store, Family::blocks).size();
  EXPECT_LT(there, kMany);
  writer->put(number_key(kMany), "late");
  EXPECT_NE(writer->wait().error().code, 0);
  writer.reset();
  EXPECT_EQ(rows_of(*m.store, Family::blocks).size(), there);
  EXPECT_FALSE(has_bulk_files(*m.volume));
  m.stop();
}

TEST(Bulk, ThereAreFewWritersAtATime) {
  auto m = Machine::fresh();
  auto first = m.store->bulk_writer(), second = m.store->bulk_writer();
  EXPECT_TRUE(first && second);
  EXPECT_FALSE(m.store->bulk_writer());
  first.reset();
  EXPECT_TRUE(m.store->bulk_writer());
}

TEST(Bulk, AFailedWriteStopsAllAndIsSaid) {
  for (const std::uint64_t later : {1, 5, 20, 60}) {
    auto m = Machine::fresh(256 * MiB);
    auto writer = m.store->bulk_writer();
    m.disk->fail_writes_from = m.disk->writes + m.disk->flushes + later;
    Result<void> done;
    for (std::uint64_t n = 0; n < kMany && done; ++n) {
      Batch batch;
      batch.put(Family::names, number_key(n), "there is such a row");
      batch.note_rows(n + 1, 1);
      done = m.store->commit(batch);
      if (done) done = writer->wait();
      if (done) writer->put(number_key(n), value_of(n));
    }
    if (done) done = writer->finish();
    ASSERT_FALSE(done) << later;
    EXPECT_EQ(done.error().code, EIO) << later;
    EXPECT_FALSE(m.store->sync());
    writer.reset();
    m.drop();
  }
}

// What is promised to the rows that others have still to write is kept.
TEST(Bulk, RoomIsForWhatHasNotComeYet) {
  auto m = Machine::fresh();
  m.store->note_rows(0);
  auto writer = m.store->bulk_writer();
  std::uint64_t rows = 0;
  std::uint64_t before = m.store->room().v;
  while (m.store->room().v > 16 * 4096) {
    for (int i = 0; i < 8; ++i) {
      put(*m.store, *writer, rows, rows + 1);
      ++rows;
    }
  }
  expect_ok(writer->finish());
  writer.reset();
  EXPECT_LT(m.store->room().v, before / 16) << "there was more room than it said";
  EXPECT_GT(rows * 4096, before * 3 / 4) << "there was less";
  EXPECT_EQ(rows_of(*m.store, Family::blocks).size(), rows);
  // Writing over it works, as on any full store.
  for (std::uint64_t n = 0; n < rows; n += 16) {
    Batch batch;
    for (std::uint64_t i = n; i < std::min(n + 16, rows); ++i) batch.put(Family::blocks, number_key(i), value_of(i + 1));
    batch.note_rows(rows);
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
  }
  expect_ok(m.store->flush());
  const auto there = rows_of(*m.store, Family::blocks);
  ASSERT_EQ(there.size(), rows);
  for (const auto& [n, value] : there) ASSERT_EQ(value, value_of(n + 1));
  m.stop();
}

}  // namespace
}  // namespace lsmfs::bulk_test
