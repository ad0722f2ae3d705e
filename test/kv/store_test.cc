#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>

#include "kv/support.h"
#include "seed.h"
#include "until.h"

namespace lsmfs::store_test {
namespace {

using kv_test::assert_ok;
using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::number_key;
using kv_test::quiet_options;
using kv_test::random_bytes;

std::optional<std::string> get(Store& store, Family family, std::string_view key) {
  auto r = store.get(family, key, Wait::yes);
  EXPECT_TRUE(r.has_value()) << r.error().message();
  return r ? *r : std::nullopt;
}

void put(Store& store, Family family, std::string_view key, std::string_view value) {
  Batch batch;
  batch.put(family, key, value);
  assert_ok(store.commit(batch));
}

std::map<std::string, std::string> all(Store& store, Family family, const CursorOptions& options = {}) {
  std::map<std::string, std::string> rows;
  auto cursor = store.cursor(family, options);
  for (cursor->seek(options.lower); cursor->valid(); cursor->next()) {
    rows.emplace(cursor->key(), cursor->value());
  }
  expect_ok(cursor->status());
  return rows;
}

TEST(Store, GivesBackWhatWasCommittedAndNothingElse) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  put(*m.store, Family::blocks, "a", "2");
  EXPECT_EQ(get(*m.store, Family::names, "a"), "1");
  EXPECT_EQ(get(*m.store, Family::blocks, "a"), "2");
  EXPECT_EQ(get(*m.store, Family::names, "b"), std::nullopt);
  Batch batch;
  batch.erase(Family::names, "a");
  batch.put(Family::names, "b", "3");
  assert_ok(m.store->commit(batch));
  EXPECT_EQ(get(*m.store, Family::names, "a"), std::nullopt);
  EXPECT_EQ(get(*m.store, Family::names, "b"), "3");
  m.stop();
}

TEST(Store, WhatWasDroppedFromTheCacheIsReadFromTheDeviceAgain) {
  auto m = Machine::fresh();
  put(*m.store, Family::blocks, "a", "1");
  assert_ok(m.store->drop_caches());
  EXPECT_EQ(m.store->get(Family::blocks, "a", Wait::no).error().code, EAGAIN);
  EXPECT_EQ(get(*m.store, Family::blocks, "a"), "1");
  EXPECT_TRUE(m.store->get(Family::blocks, "a", Wait::no));
  assert_ok(m.store->drop_caches());
  EXPECT_EQ(m.store->get(Family::blocks, "a", Wait::no).error().code, EAGAIN);
  EXPECT_EQ(get(*m.store, Family::blocks, "a"), "1");
  m.stop();
}

TEST(Store, ABatchAppliesInOrderAndCanBeUsedAgain) {
  auto m = Machine::fresh();
  Batch batch;
  EXPECT_TRUE(batch.empty());
  batch.put(Family::names, "a", "1");
  batch.erase(Family::names, "a");
  batch.put(Family::names, "a", "2");
  batch.patch(Family::names, "a", 1, "3");
  batch.cut(Family::names, "new", 3);
  EXPECT_FALSE(batch.empty());
  EXPECT_GT(batch.bytes(), 5u);
  assert_ok(m.store->commit(batch));
  EXPECT_EQ(get(*m.store, Family::names, "a"), "23");
  EXPECT_EQ(get(*m.store, Family::names, "new"), "");
  batch.clear();
  EXPECT_TRUE(batch.empty());
  assert_ok(m.store->commit(batch));
  batch.put(Family::names, "c", "4");
  assert_ok(m.store->commit(batch));
  EXPECT_EQ(get(*m.store, Family::names, "a"), "23");
  EXPECT_EQ(get(*m.store, Family::names, "c"), "4");
}

TEST(Store, ABatchCanGoBack) {
  auto m = Machine::fresh();
  Batch batch;
  batch.save();
  batch.put(Family::names, "a", "1");
  batch.go_back();
  EXPECT_TRUE(batch.empty());
  batch.put(Family::names, "b", "1");
  batch.save();
  batch.put(Family::names, "b", "2");
  batch.put(Family::names, "c", "1");
  batch.go_back();
  batch.save();
  batch.put(Family::names, "d", "1");
  batch.keep();
  assert_ok(m.store->commit(batch));
  EXPECT_EQ(all(*m.store, Family::names), (std::map<std::string, std::string>{{"b", "1"}, {"d", "1"}}));
  m.stop();
}

TEST(Store, ACursorStaysWithinItsBoundsAndSeesTheMomentItWasMade) {
  auto m = Machine::fresh();
  for (char c = 'a'; c <= 'z'; ++c) put(*m.store, Family::names, std::string(1, c), std::string(1, c));
  CursorOptions options;
  options.lower = "d";
  options.upper = "h";
  auto cursor = m.store->cursor(Family::names, options);
  EXPECT_FALSE(cursor->valid());
  put(*m.store, Family::names, "da", "later");
  cursor->seek("");
  std::string seen;
  for (; cursor->valid(); cursor->next()) seen += cursor->key();
  expect_ok(cursor->status());
  EXPECT_EQ(seen, "defg");
  cursor->seek("z");
  EXPECT_FALSE(cursor->valid());
  expect_ok(cursor->status());
  cursor->seek("f");
  ASSERT_TRUE(cursor->valid());
  EXPECT_EQ(cursor->key(), "f");
}

TEST(Store, RangesAreErasedWithoutTheirEnd) {
  auto m = Machine::fresh();
  for (int i = 0; i < 100; ++i) put(*m.store, Family::blocks, number_key(i), "x");
  expect_ok(m.store->flush());
  Batch batch;
  batch.erase_range(Family::blocks, number_key(10), number_key(90));
  batch.erase_range(Family::blocks, number_key(5), number_key(5));
  batch.put(Family::blocks, number_key(50), "again");
  assert_ok(m.store->commit(batch));
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 21u);
  expect_ok(m.store->flush());
  expect_ok(m.store->compact(Family::blocks, "", ""));
  const auto rows = all(*m.store, Family::blocks);
  EXPECT_EQ(rows.size(), 21u);
  EXPECT_EQ(rows.at(number_key(50)), "again");
  EXPECT_EQ(get(*m.store, Family::blocks, number_key(10)), std::nullopt);
  EXPECT_EQ(get(*m.store, Family::blocks, number_key(90)), "x");
}

TEST(Store, ManyRangesAreFlushedAndStayErased) {
  auto m = Machine::fresh();
  for (int i = 0; i < 4000; ++i) put(*m.store, Family::blocks, number_key(i), "x");
  for (int i = 0; i < 1300; ++i) {
    Batch batch;
    batch.erase_range(Family::blocks, number_key(i * 3), number_key(i * 3 + 2));
    assert_ok(m.store->commit(batch));
  }
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 1400u);
  m.stop();
  m.start();
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 1400u);
}

TEST(Store, IsWholeAfterCloseAndOpen) {
  auto m = Machine::fresh();
  for (int i = 0; i < 1000; ++i) put(*m.store, Family::blocks, number_key(i), std::string(1000, 'a' + i % 26));
  m.stop();
  m.start();
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 1000u);
  EXPECT_EQ(get(*m.store, Family::blocks, number_key(7)), std::string(1000, 'a' + 7));
  m.stop();
}

// RocksDB warns of options that it cannot keep.
TEST(Store, SaysNothingWhileAllIsWell) {
  std::vector<std::string> notices;
  StoreOptions options = kv_test::quiet_options();
  options.notice = [&](std::string_view line) { notices.emplace_back(line); };
  auto m = Machine::fresh(kDeviceMin, options);
  m.stop();
  m.start(options);
  m.stop();
  EXPECT_EQ(notices, std::vector<std::string>());
}

TEST(Store, ReadOnlySeesEverythingAndWritesNothing) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "flushed", "1");
  expect_ok(m.store->flush());
  put(*m.store, Family::names, "in the log", "2");
  expect_ok(m.store->sync());
  auto disk = m.disk->copy();
  StoreOptions options = quiet_options();
  options.read_only = true;
  auto reader = Machine::on(std::move(disk), options);
  const std::uint64_t writes = reader.disk->writes;
  EXPECT_EQ(get(*reader.store, Family::names, "flushed"), "1");
  EXPECT_EQ(get(*reader.store, Family::names, "in the log"), "2");
  Batch batch;
  batch.put(Family::names, "x", "y");
  const auto refused = reader.store->commit(batch);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EROFS);
  EXPECT_EQ(reader.store->trim({}, [] { return false; }).error().code, EROFS);
  expect_ok(reader.store->close());
  EXPECT_EQ(reader.disk->writes, writes);
  EXPECT_EQ(reader.disk->discards, 0u);
}

TEST(Store, TrimGivesBackWhatWasErasedAndKeepsTheRest) {
  auto m = Machine::fresh();
  std::mt19937_64 random(1);
  std::map<std::string, std::string> kept;
  const auto fill = [&](std::uint64_t from, std::uint64_t to, bool keep) {
    for (std::uint64_t i = from; i < to; ++i) {
      const std::string value = random_bytes(random, 4096);
      put(*m.store, Family::blocks, number_key(i), value);
      if (keep) kept[number_key(i)] = value;
    }
  };
  fill(0, 2000, true);
  fill(2000, 8000, false);
  expect_ok(m.store->flush());
  const std::uint64_t before = kv_test::trim(*m.store);
  Batch batch;
  batch.erase_range(Family::blocks, number_key(2000), number_key(8000));
  assert_ok(m.store->commit(batch));
  expect_ok(m.store->flush());
  expect_ok(m.store->compact(Family::blocks, "", ""));
  EXPECT_GE(kv_test::trim(*m.store), before + 20 * MiB);
  EXPECT_EQ(all(*m.store, Family::blocks), kept);
  m.drop();
  m.start();
  EXPECT_EQ(all(*m.store, Family::blocks), kept);
  m.stop();
}

TEST(Store, MadeReadOnlyItLeavesTheDeviceAloneAndGoesOnLater) {
  auto m = Machine::fresh();
  const auto fill = [&](int round) {
    Batch batch;
    for (int i = 0; i < 3000; ++i) {
      batch.put(Family::blocks, number_key(static_cast<std::uint64_t>(i)), std::string(2000, static_cast<char>('a' + (i + round) % 26)));
    }
    expect_ok(m.store->commit(batch));
  };
  // Something to compact, and a range that would be in ten seconds.
  for (int round = 0; round < 3; ++round) {
    fill(round);
    expect_ok(m.store->flush());
  }
  fill(3);
  Batch batch;
  batch.erase_range(Family::blocks, number_key(100), number_key(2000));
  expect_ok(m.store->commit(batch));

  // A trim that is in the middle of a piece when the store is made read-only. (Nothing is committed by an empty batch.)
  m.disk->on_discard = [&] {
    Batch nothing;
    EXPECT_TRUE(test::until([&] { return !m.store->commit(nothing); }));
  };
  std::thread trimming([&] {
    const auto trimmed = m.store->trim({}, [] { return false; });
    ASSERT_FALSE(trimmed);
    EXPECT_EQ(trimmed.error().code, EROFS);
  });
  EXPECT_TRUE(test::until([&] { return m.disk->discards > 0; }));

  expect_ok(m.store->set_read_only(true));
  expect_ok(m.store->set_read_only(true));
  const auto touched = [&] { return m.disk->writes + m.disk->flushes + m.disk->discards; };
  const std::uint64_t before = touched();
  EXPECT_EQ(m.store->stats().memtable_bytes < 64 * KiB, true) << "all is in tables";
  EXPECT_EQ(m.store->commit(batch).error().code, EROFS);
  EXPECT_EQ(m.store->compact(Family::blocks, "", "").error().code, EROFS);
  expect_ok(m.store->sync());
  expect_ok(m.store->flush());
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 1100u);
  auto as_it_is = Machine::on(m.disk->copy());
  EXPECT_EQ(all(*as_it_is.store, Family::blocks).size(), 1100u);
  as_it_is.stop();
  trimming.join();
  EXPECT_EQ(touched(), before);

  expect_ok(m.store->set_read_only(false));
  fill(4);
  for (int round = 0; round < 5; ++round) {
    fill(round);
    expect_ok(m.store->flush());
  }
  expect_ok(m.store->compact(Family::blocks, "", ""));
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 3000u);
  EXPECT_GT(touched(), before);

  expect_ok(m.store->set_read_only(true));
  const std::uint64_t closing = touched();
  expect_ok(m.store->close());
  m.drop();
  EXPECT_EQ(touched(), closing);
  m.start();
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 3000u);
  m.stop();
}

TEST(Store, OpenedReadOnlyItStaysSo) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  m.stop();
  StoreOptions options = quiet_options();
  options.read_only = true;
  m.start(options);
  expect_ok(m.store->set_read_only(true));
  EXPECT_EQ(m.store->set_read_only(false).error().code, EROFS);
  EXPECT_EQ(get(*m.store, Family::names, "a"), "1");
}

TEST(Store, ThatCannotWriteDoesNotSayThatItIsReadOnlyNow) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  m.disk->fail_writes_from = m.disk->writes + m.disk->flushes + 1;
  EXPECT_EQ(m.store->set_read_only(true).error().code, EIO);
  EXPECT_EQ(m.store->sync().error().code, EIO);
}

TEST(Store, PatchesAgreeWithAPlainModelThroughFlushesAndCompactions) {
  std::mt19937_64 random(test::drawn_seed());
  auto m = Machine::fresh();
  std::map<std::string, std::string> model;
  for (int step = 0; step < 6000; ++step) {
    const std::string key = number_key(random() % 20);
    Batch batch;
    const auto at = static_cast<std::uint32_t>(random() % 4000);
    switch (random() % 16) {
      case 0: {
        const std::string value = random_bytes(random, random() % 500 * 8);
        batch.put(Family::blocks, key, value);
        model[key] = value;
        break;
      }
      case 1:
        batch.erase(Family::blocks, key);
        model.erase(key);
        break;
      case 2:
        batch.cut(Family::blocks, key, at);
        if (std::string& v = model[key]; v.size() > at) v.resize(at);
        break;
      default: {
        const std::string bytes = random_bytes(random, 8 + random() % 10 * 8);
        batch.patch(Family::blocks, key, at, bytes);
        std::string& v = model[key];
        if (v.size() < at + bytes.size()) v.resize(at + bytes.size());
        v.replace(at, bytes.size(), bytes);
      }
    }
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    if (random() % 200 == 0) expect_ok(m.store->flush());
    if (random() % 1000 == 0) expect_ok(m.store->compact(Family::blocks, "", ""));
    if (random() % 1500 == 0) {
      m.stop();
      m.start();
    }
    if (random() % 10 == 0) {
      const auto found = get(*m.store, Family::blocks, key);
      const auto expected = model.find(key);
      if (expected == model.end()) {
        ASSERT_EQ(found, std::nullopt) << "step " << step;
      } else {
        ASSERT_TRUE(found == expected->second) << "step " << step;
      }
    }
  }
  const auto rows = all(*m.store, Family::blocks);
  EXPECT_EQ(rows.size(), model.size());
  for (const auto& [key, value] : model) {
    ASSERT_TRUE(rows.contains(key));
    EXPECT_TRUE(rows.at(key) == value) << key << " " << rows.at(key).size() << " " << value.size() << " get says "
                                       << (get(*m.store, Family::blocks, key) == value);
  }
}

TEST(Store, WithoutWaitingNothingIsReadFromTheDevice) {
  auto m = Machine::fresh();
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) put(*m.store, Family::blocks, number_key(i), random_bytes(random, 4096));
  for (int i = 0; i < 2000; ++i) put(*m.store, Family::names, number_key(i), random_bytes(random, 128));
  // Nothing is left to do in the background after this.
  for (Family family : {Family::names, Family::blocks}) expect_ok(m.store->compact(family, "", ""));
  m.stop();
  m.start();
  std::uint64_t reads = m.disk->reads;
  int refused = 0;
  for (int i = 0; i < 2000; i += 50) {
    for (Family family : {Family::names, Family::blocks}) {
      auto r = m.store->get(family, number_key(i), Wait::no);
      if (!r) {
        EXPECT_EQ(r.error().code, EAGAIN);
        ++refused;
      }
      CursorOptions options;
      options.wait = Wait::no;
      auto cursor = m.store->cursor(family, options);
      cursor->seek(number_key(i));
      if (!cursor->valid()) {
        ASSERT_FALSE(cursor->status().has_value());
        EXPECT_EQ(cursor->status().error().code, EAGAIN);
      }
    }
  }
  EXPECT_EQ(m.disk->reads, reads);
  EXPECT_GT(refused, 0);

  // What has been read with waiting is then in memory.
  EXPECT_TRUE(get(*m.store, Family::names, number_key(50)).has_value());
  reads = m.disk->reads;
  auto r = m.store->get(Family::names, number_key(50), Wait::no);
  ASSERT_TRUE(r.has_value()) << r.error().message();
  EXPECT_TRUE(r->has_value());
  put(*m.store, Family::names, "new", "row");
  r = m.store->get(Family::names, "new", Wait::no);
  ASSERT_TRUE(r.has_value()) << r.error().message();
  EXPECT_EQ(*r, "row");
  EXPECT_EQ(m.disk->reads, reads);
}

TEST(Store, ALongScanReadsTheDeviceInLargeRequests) {
  auto m = Machine::fresh(512 * MiB);
  std::mt19937_64 random(1);
  for (int i = 0; i < 10000; ++i) put(*m.store, Family::blocks, number_key(i), random_bytes(random, 4096));
  expect_ok(m.store->compact(Family::blocks, "", ""));
  m.stop();
  m.start();
  CursorOptions options;
  options.upper = number_key(10000);
  options.readahead = ByteCount{2 * MiB};
  options.fill_cache = false;
  const std::uint64_t reads = m.disk->reads;
  EXPECT_EQ(all(*m.store, Family::blocks, options).size(), 10000u);
  EXPECT_LT(m.disk->reads - reads, 200u) << "40 MiB in requests of 2 MiB, and the indexes";
}

TEST(Store, SyncWithNothingNewTouchesNothing) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  expect_ok(m.store->sync());
  const std::uint64_t flushes = m.disk->flushes, writes = m.disk->writes;
  for (int i = 0; i < 10; ++i) expect_ok(m.store->sync());
  EXPECT_EQ(m.disk->flushes, flushes);
  EXPECT_EQ(m.disk->writes, writes);
}

// So many rows that each of 16 shards has more blocks than it can hold, and that the one that does not fit counts for little.
TEST(Store, TheCacheMakesRoomForWhatItsCallerHas) {
  constexpr int kRows = 16000;
  StoreOptions options = quiet_options();
  options.cache = ByteCount{32 * MiB};
  auto m = Machine::fresh(256 * MiB, options);
  std::mt19937_64 random(7);
  const auto family = [](int row) { return row % 3 == 0 ? Family::names : Family::blocks; };
  for (int i = 0; i < kRows; ++i) put(*m.store, family(i), number_key(i), random_bytes(random, 4096));
  expect_ok(m.store->flush());
  const auto cached_after_reading_all = [&] {
    for (int i = 0; i < kRows; ++i) EXPECT_TRUE(m.store->get(family(i), number_key(i), Wait::yes)->has_value());
    return m.store->stats().cache_bytes;
  };
  EXPECT_GT(cached_after_reading_all(), 28 * MiB);
  m.store->share_cache(ByteCount{6 * MiB});
  EXPECT_LE(m.store->stats().cache_bytes, 26 * MiB) << "at once";
  m.store->share_cache(ByteCount{1000 * MiB});
  EXPECT_LE(cached_after_reading_all(), 24 * MiB);
  EXPECT_GT(m.store->stats().cache_bytes, 22 * MiB) << "no more than a quarter is given up";
  m.store->share_cache(ByteCount{0});
  EXPECT_GT(cached_after_reading_all(), 28 * MiB);
}

// A walk through contents needs the names that were read ahead of it, some of them after hundreds of megabytes.
TEST(Store, NamesStayInTheCacheWhileContentsPassThroughIt) {
  StoreOptions options = quiet_options();
  options.cache = ByteCount{8 * MiB};
  auto m = Machine::fresh(kDeviceMin, options);
  std::mt19937_64 random(8);
  put(*m.store, Family::names, "a", "1");
  for (int i = 0; i < 4000; ++i) put(*m.store, Family::blocks, number_key(i), random_bytes(random, 4096));
  assert_ok(m.store->drop_caches());
  EXPECT_EQ(get(*m.store, Family::names, "a"), "1");
  EXPECT_EQ(all(*m.store, Family::blocks).size(), 4000u);
  EXPECT_TRUE(m.store->get(Family::names, "a", Wait::no)) << "thrown out by what was read once";
}

// A filter is read as one, and has 10 bits for each row of a table. Who makes files looks up names that are not there.
TEST(Store, TheFilterOfALargeTableStaysInASmallCache) {
  StoreOptions options = quiet_options();
  options.cache = ByteCount{8 * MiB};
  auto m = Machine::fresh(kDeviceMin, options);
  constexpr int kRows = 200'000;  // whose filter takes 250 KB, an eighth of the cache for names
  Batch batch;
  for (int i = 0; i < kRows; ++i) {
    batch.put(Family::names, number_key(2 * i), "");
    if (i % 1000 < 999) continue;
    assert_ok(m.store->commit(batch));
    batch.clear();
  }
  expect_ok(m.store->flush());
  expect_ok(m.store->compact(Family::names, "", ""));
  const auto read_for_absent_names = [&] {
    const std::uint64_t before = m.disk->reads;
    for (int i = 0; i < 200; ++i) EXPECT_EQ(get(*m.store, Family::names, number_key(2 * (i * 997) + 1)), std::nullopt);
    return m.disk->reads - before;
  };
  (void)read_for_absent_names();
  EXPECT_LT(read_for_absent_names(), 20u) << "one in a hundred is taken for one that is there";
}

TEST(Store, StatsTellWhatIsWhere) {
  auto m = Machine::fresh();
  EXPECT_EQ(m.store->stats().table_bytes, 0u);
  for (int i = 0; i < 1000; ++i) put(*m.store, Family::blocks, number_key(i), std::string(4096, 'x'));
  EXPECT_GT(m.store->stats().memtable_bytes, 0u);
  expect_ok(m.store->flush());
  const StoreStats stats = m.store->stats();
  ASSERT_FALSE(stats.levels.empty());
  EXPECT_GE(stats.raw_bytes, 1000u * 4096);
  EXPECT_GT(stats.table_bytes, 0u);
  EXPECT_LT(stats.table_bytes, stats.raw_bytes / 4);
}

TEST(Store, AVolumeThatLostItsStartIsRefusedAndNotMadeAnew) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  m.stop();
  auto v = Volume::open(m.disk->device());
  ASSERT_TRUE(v.has_value());
  assert_ok((*v)->remove("CURRENT"));
  assert_ok((*v)->commit());
  const auto names = (*v)->list();
  auto s = Store::open(**v, kv_test::quiet_options());
  ASSERT_FALSE(s.has_value());
  EXPECT_EQ(s.error().code, EUCLEAN);
  EXPECT_EQ((*v)->list(), names);
}

TEST(Store, ASmallFileThatIsLargeIsDamageAndIsNotReadIntoMemory) {
  for (const char* name : {"CURRENT", "IDENTITY"}) {
    Machine m = Machine::fresh();
    m.stop();
    auto volume = Volume::open(m.disk->device());
    ASSERT_TRUE(volume);
    auto writer = (*volume)->create(name, FileKind::small);
    ASSERT_TRUE(writer);
    expect_ok((*writer)->append(as_bytes(std::string(2 * MiB, 'x'))));
    expect_ok((*writer)->sync());
    const std::uint64_t before = m.disk->reads;
    const auto store = Store::open(**volume, kv_test::quiet_options());
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code, EUCLEAN);
    EXPECT_EQ(m.disk->reads, before);
  }
}

TEST(Store, NothingButItsOwnFilesIsOnTheVolume) {
  auto m = Machine::fresh();
  put(*m.store, Family::names, "a", "1");
  m.stop();
  m.start();
  for (const std::string& name : m.volume->list()) {
    EXPECT_TRUE(name == "CURRENT" || name == "IDENTITY" || name.starts_with("MANIFEST-") ||
                name.starts_with("OPTIONS-") || name.ends_with(".sst") || name.ends_with(".log"))
        << name;
  }
}

}  // namespace
}  // namespace lsmfs::store_test
