#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "clock.h"
#include "gate.h"
#include "kv/erased.h"
#include "kv/give_way.h"
#include "kv/passing_time.h"
#include "kv/sizing.h"
#include "kv/store.h"
#include "kv/support.h"
#include "seed.h"
#include "until.h"
#include "volume/format.h"
#include "volume/metadata_log.h"
#include "volume/superblock.h"

namespace lsmfs::space_test {
namespace {

using kv_test::assert_ok;
using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::number_key;
using test::until;

TEST(Sizing, EveryVolumeKeepsMostOfItsSpaceForData) {
  for (std::uint64_t size = kDeviceMin; size < 64 * 1024 * GiB; size += size / 3) {
    const Layout layout = *plan_layout(size);
    VolumeUsage usage;
    usage.table_total = usage.table_free = ByteCount{layout.table.length};
    usage.fixed_total = usage.fixed_free = ByteCount{layout.fixed.length};
    for (std::uint64_t cache : {8 * MiB, 256 * MiB, 8 * GiB}) {
      const auto s = kv::Sizing::plan(usage, ByteCount{cache});
      EXPECT_LE(s.reserve, s.total * 2 / 5) << size << " " << cache;
      EXPECT_GE(s.reserve, s.total / 20);
      EXPECT_GE(s.blocks_memtable, MiB);
      EXPECT_LE(s.blocks_memtable, 64 * MiB);
      EXPECT_GE(s.level_base, s.blocks_memtable);
      EXPECT_LE(s.log, usage.fixed_total.v / 2);
      EXPECT_LE(s.manifest / 140 * kDeviceBlock, usage.fixed_total.v * 3 / 8) << size;
      EXPECT_LE(s.total / s.table, 41'000u) << size;
      // Whole granules cost little.
      EXPECT_LT(kv::taken_per_byte(s.table), 1.03) << size << " " << cache;
      // A table of the last level ends up to a block after its target, and has an index of about a thousandth. It ends in the last
      // granule of a whole number of them that its size was meant to be.
      for (const std::uint64_t table : {s.table, s.names_table}) {
        EXPECT_EQ(kv::on_volume(table + table / 1000 + 80 * KiB) % (256 * KiB), 0u) << size << " " << cache;
        EXPECT_EQ(kv::on_volume(table), kv::on_volume(table + table / 1000 + 80 * KiB) - round_down(table / 1000 + 80 * KiB, kTableGranule)) << size;
      }
    }
  }
}

// Its logs and its list of files stay as they were made, by up to 64 times.
TEST(Sizing, SuitsAVolumeThatHasGrownAsFarAsItMay) {
  for (std::uint64_t size = kDeviceMin; size < 1024 * GiB; size += size / 3) {
    const Layout made = *plan_layout(size);
    const auto layout = layout_for(made, made.fixed.length < GiB ? made.fixed.length * 1024 : 64 * size);
    ASSERT_TRUE(layout.has_value()) << size;
    VolumeUsage usage;
    usage.table_total = ByteCount{layout->table.length};
    usage.fixed_total = ByteCount{layout->fixed.length};
    const auto s = kv::Sizing::plan(usage, ByteCount{256 * MiB});
    EXPECT_LE(s.log, usage.fixed_total.v / 2);
    EXPECT_LE(s.manifest / 140 * kDeviceBlock, usage.fixed_total.v * 3 / 8) << size;
    EXPECT_LE(s.total / s.table * 140, MetadataLog::capacity(*layout)) << size;
  }
}

// Returns when there is so much room, or when nothing is under way that would make some.
void await_room(Store& store, std::uint64_t wanted) {
  const auto& rocks = dynamic_cast<const RocksStore&>(store);
  EXPECT_TRUE(until([&] { return store.room().v >= wanted || rocks.idle(); }));
}

// Whether there is so much, or will be by itself.
bool room_in_the_end(Store& store, std::uint64_t wanted) {
  // A flush measures; and compactions may follow one.
  for (int flushes = 0; store.room().v < wanted && flushes < 2; ++flushes) {
    await_room(store, wanted);
    expect_ok(store.flush());
  }
  return store.room().v >= wanted;
}

// Puts rows of random bytes until there is no room, nor will be; gives the number of rows.
std::uint64_t fill(Store& store, std::mt19937_64& random, std::uint64_t first) {
  std::uint64_t n = 0;
  while (room_in_the_end(store, 64 * KiB)) {
    Batch batch;
    for (int i = 0; i < 8; ++i) {
      batch.put(Family::blocks, number_key(first + n), kv_test::random_bytes(random, 4096));
      batch.put(Family::names, number_key(first + n), kv_test::random_bytes(random, 120));
      ++n;
    }
    const auto done = store.commit(batch);
    EXPECT_TRUE(done.has_value()) << done.error().message();
    if (!done) break;
  }
  return n;
}

TEST(Space, AVolumeThatGrowsHasMoreRoomAtOnceAndNotLessLater) {
  const auto device = memory_device(ByteCount{700 * MiB});
  ASSERT_NO_FATAL_FAILURE(assert_ok(Volume::format(*device, {})));
  ASSERT_NO_FATAL_FAILURE(assert_ok(Volume::shrink(*device, ByteCount{300 * MiB}, [](ByteCount, ByteCount) {})));
  std::uint64_t grown = 0;
  {
    const auto volume = Volume::open(*device);
    ASSERT_TRUE(volume) << volume.error().message();
    const auto store = Store::open(**volume, {});
    ASSERT_TRUE(store) << store.error().message();
    const Store::Space before = (*store)->space();
    expect_ok((*store)->grow(ByteCount{500 * MiB}));
    const Store::Space more = (*store)->space();
    EXPECT_GT(more.total.v, before.total.v + 100 * MiB);
    EXPECT_GT(more.free.v, before.free.v + 100 * MiB);
    expect_ok((*store)->grow({}));
    grown = (*store)->space().total.v;
    EXPECT_GT(grown, more.total.v + 100 * MiB);
    EXPECT_EQ((*store)->grow(ByteCount{500 * MiB}).error().code, EINVAL);
    EXPECT_EQ((*store)->grow(ByteCount{800 * MiB}).error().code, ENOSPC);
    Batch batch;
    batch.put(Family::names, "a", "b");
    expect_ok((*store)->commit(batch));
    expect_ok((*store)->close());
  }
  const auto volume = Volume::open(*device);
  ASSERT_TRUE(volume) << volume.error().message();
  const auto store = Store::open(**volume, {});
  ASSERT_TRUE(store) << store.error().message();
  EXPECT_GE((*store)->space().total.v, grown);
  expect_ok((*store)->close());
}

TEST(Space, SaysHowSmallAVolumeMayBecome) {
  auto m = Machine::fresh(700 * MiB);
  const std::uint64_t total = m.volume->usage().table_total.v;
  const std::uint64_t empty = m.store->least_tables().v;
  EXPECT_LT(empty, 64 * MiB);
  std::mt19937_64 random(7);
  for (std::uint64_t n = 0; n < 50'000; n += 100) {  // 200 MiB
    Batch batch;
    for (std::uint64_t i = n; i < n + 100; ++i) batch.put(Family::blocks, number_key(i), kv_test::random_bytes(random, 4096));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
  }
  expect_ok(m.store->flush());
  const std::uint64_t least = m.store->least_tables().v;
  EXPECT_GT(least, 200 * MiB);
  EXPECT_LT(least, total);
  EXPECT_FALSE(m.store->suits(ByteCount{150 * MiB}));
  EXPECT_TRUE(m.store->suits(ByteCount{total}));
  expect_ok(m.store->close());
  m.store.reset();
  // With as little as that there is no more room than for nothing, and a granule or two.
  for (const auto& [tables, has] : {std::pair{least, true}, std::pair{least - 8 * MiB, false}, std::pair{total, true}}) {
    const auto store = Store::open(*m.volume, {.as_if = ByteCount{tables}});
    ASSERT_TRUE(store) << store.error().message();
    EXPECT_EQ((*store)->space().free.v > 0, has) << tables;
    expect_ok((*store)->close());
  }
}

// Each flush takes a block of the manifest, which lies where the log does: no number of them may fill that region.
TEST(Space, FlushesForEverLeaveTheLogItsRoom) {
  auto m = Machine::fresh(kDeviceMin);
  // If each left as little as a block, three quarters of the room would be gone before the end.
  const std::uint64_t flushes = m.volume->usage().fixed_total.v * 3 / 4 / kDeviceBlock + 100;
  for (std::uint64_t n = 0; n < flushes; ++n) {
    Batch batch;
    batch.put(Family::names, number_key(n % 10), "row");
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->flush()));
    const VolumeUsage usage = m.volume->usage();
    ASSERT_GT(usage.fixed_free.v, usage.fixed_total.v / 4) << "after " << n << " flushes";
  }
  m.stop();
}

bool room_comes_back(Store& store, std::uint64_t wanted) {
  return until([&] { return store.room().v >= wanted; });
}

TEST(Space, AFullStoreErasesAndFillsAgainTimeAfterTime) {
  std::mt19937_64 random(test::drawn_seed());
  auto m = Machine::fresh(kDeviceMin);
  const std::uint64_t empty_room = m.store->room().v;
  EXPECT_GT(empty_room, 50 * MiB) << "of a 128 MiB volume";
  const Store::Space said = m.store->space();
  EXPECT_LE(said.total.v - said.free.v, 64 * KiB) << "an empty memtable has a little";
  EXPECT_LE(said.free.v, empty_room);
  for (int cycle = 0; cycle < 4; ++cycle) {
    SCOPED_TRACE("cycle " + std::to_string(cycle));
    const std::uint64_t rows = fill(*m.store, random, 0);
    // Names, keys, and what tables leave empty of their granules take the rest.
    EXPECT_GT(rows * 4096, empty_room * 45 / 100);
    if (testing::Test::HasFailure()) return;
    // Erasing works on a full store: half of them one by one, half as ranges, by the cycle.
    Batch batch;
    if (cycle % 2 == 0) {
      for (std::uint64_t i = 0; i < rows; ++i) {
        batch.erase(Family::blocks, number_key(i));
        batch.erase(Family::names, number_key(i));
        if (i % 64 == 0) {
          expect_ok(m.store->commit(batch));
          batch.clear();
        }
      }
    } else {
      batch.erase_range(Family::blocks, number_key(0), number_key(rows));
      batch.erase_range(Family::names, number_key(0), number_key(rows));
    }
    expect_ok(m.store->commit(batch));
    for (Family family : {Family::names, Family::blocks}) expect_ok(m.store->compact(family, "", ""));
    EXPECT_TRUE(room_comes_back(*m.store, empty_room * 9 / 10));
    EXPECT_FALSE(m.volume->failure().has_value());
    if (cycle == 1) {
      m.stop();
      m.start();
    }
    if (testing::Test::HasFailure()) return;
  }
  m.stop();
}

// What was in a memtable is in a table after a flush: it counts once at every moment, else room would come and go. Compactions,
// which make room, do not end meanwhile.
TEST(Space, WhileRowsAreAddedRoomDoesNotGrowByAMemtable) {
  std::mt19937_64 random(3);
  auto m = Machine::fresh(kDeviceMin);
  test::Gate gate;
  m.disk->on_read = [&] {
    const bool passed = !kv::GiveWay::compacting() || gate.pass();
    EXPECT_TRUE(passed);
  };
  std::uint64_t room = m.store->room().v, most = 0;
  for (std::uint64_t n = 0; n < 24 * MiB / 4096;) {
    Batch batch;
    for (int i = 0; i < 8; ++i) batch.put(Family::blocks, number_key(n++), kv_test::random_bytes(random, 4096));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    const std::uint64_t now = m.store->room().v;
    most = std::max(most, now - std::min(now, room));
    room = now;
  }
  // A table may take less than its rows took in memory, and some may be flushed between two looks.
  EXPECT_LT(most, 5 * MiB / 4) << "of memtables of 15/8 MiB";
  gate.open();
  m.stop();
}

// RocksDB must not meet that either: a table that cannot be made stops it for good.
TEST(Space, AVolumeThatCanHardlyListMoreFilesHasNoRoomButErases) {
  auto m = Machine::fresh(kDeviceMin);
  const auto room = [&] {
    expect_ok(m.store->flush());  // and measures
    return m.store->room().v;
  };
  Batch batch;
  batch.put(Family::names, "row", "value");
  assert_ok(m.store->commit(batch));
  const std::uint64_t before = room();
  ASSERT_GT(before, 50 * MiB);
  std::vector<std::string> others;
  while (m.volume->usage().list_free.v > m.volume->usage().list_total.v / 8) {
    others.push_back(std::string(200, 'n') + std::to_string(others.size()));
    ASSERT_TRUE(m.volume->create(others.back(), FileKind::small).has_value());
  }
  EXPECT_EQ(room(), 0u);
  EXPECT_EQ(m.store->space().free.v, 0u);
  for (int i = 0; i < 100; ++i) {
    batch.clear();
    batch.erase(Family::names, number_key(i));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->flush()));
  }
  for (const std::string& name : others) expect_ok(m.volume->remove(name));
  expect_ok(m.volume->commit());
  EXPECT_GE(room() + 101 * kTableGranule, before) << "each flush has made a table";
  m.stop();
}

// Rows erased one by one, of which no compaction takes notice by itself.
TEST(Space, WhatIsErasedComesBackAlsoWhenItIsLittle) {
  std::mt19937_64 random(11);
  test::SteppedClock clock;
  StoreOptions options = kv_test::quiet_options();
  options.clock = &clock;
  const kv_test::PassingTime passing(clock);
  auto m = Machine::fresh(kDeviceMin, options);
  const auto total = m.volume->usage().table_total.v;
  const std::uint64_t rows = 32 * MiB / 4096;
  for (std::uint64_t n = 0; n < rows;) {
    Batch batch;
    for (int i = 0; i < 8; ++i) batch.put(Family::blocks, number_key(n++), kv_test::random_bytes(random, 4096));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
  }
  assert_ok(m.store->compact(Family::blocks, "", ""));
  const std::uint64_t before = m.store->room().v, little = total / 100;
  Batch batch;
  for (std::uint64_t i = 0; i < little / 4096; ++i) batch.erase(Family::blocks, number_key(rows / 2 + i));
  ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
  clock.advance(kv::Erased::kRest);
  EXPECT_TRUE(room_comes_back(*m.store, before + little / 2));
  m.stop();
}

TEST(Space, OverwritingForEverNeverFills) {
  std::mt19937_64 random(7);
  auto m = Machine::fresh(kDeviceMin);
  for (int round = 0; round < 12; ++round) {
    for (std::uint64_t i = 0; i < 4096; i += 8) {
      Batch batch;
      for (std::uint64_t k = i; k < i + 8; ++k) {
        batch.put(Family::blocks, number_key(random() % 4096), kv_test::random_bytes(random, 4096));
      }
      ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    }
  }
  EXPECT_GT(m.store->room().v, 0u);
  m.stop();
}

// Compactions give way to readers, and fall behind: the level below level 0 may come to hold many times its share, and the next
// merge of level 0 rewrites all of it. That must find room as well, also when it is a get that was the last to read old tables.
TEST(Space, AMergeIntoALevelThatHasOutgrownItsShareFindsRoom) {
  std::mt19937_64 random(7);
  auto m = Machine::fresh(256 * MiB);
  const std::uint64_t total = m.store->room().v, rows = total / 4096 * 3 / 4;
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    for (std::mt19937_64 mine(8); !stop;) (void)m.store->get(Family::blocks, number_key(mine() % rows), Wait::yes);
  });
  for (std::uint64_t n = 0; n < rows * 7 / 4 && !HasFailure(); n += 16) {
    Batch batch;
    for (int i = 0; i < 16; ++i) batch.put(Family::blocks, number_key(random() % rows), kv_test::random_bytes(random, 4096));
    await_room(*m.store, MiB);
    expect_ok(m.store->commit(batch));
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(m.volume->failure().has_value());
  m.stop();
}

// The tombstones of both are in one table, which spans all others.
TEST(Space, TwoRangesFarApartAreErasedWhenAllIsFull) {
  std::mt19937_64 random(5);
  auto m = Machine::fresh(448 * MiB);
  const std::uint64_t rows = fill(*m.store, random, 0);
  assert_ok(m.store->compact(Family::blocks, "", ""));
  // Of tables, not of room, which may be some MiB less than none: how many depends on when flushes and compactions end.
  const std::uint64_t bytes = m.store->stats().table_bytes, erased = 2 * MiB / 4096;
  Batch batch;
  batch.erase_range(Family::blocks, number_key(0), number_key(erased));
  batch.erase_range(Family::blocks, number_key(rows - erased), number_key(rows));
  assert_ok(m.store->commit(batch));
  m.stop();  // waits until their space is back
  m.start();
  EXPECT_LE(m.store->stats().table_bytes + 2 * erased * 4096, bytes + MiB);
  m.stop();
}

// Rows of both families of which every other eight are then erased, by so many ranges that the keeper does not wait for more of them.
void put_rows_at_the_bottom(Store& store, std::uint64_t rows) {
  std::mt19937_64 random(13);
  for (std::uint64_t n = 0; n < rows;) {
    Batch batch;
    for (int i = 0; i < 8; ++i, ++n) {
      batch.put(Family::names, number_key(n), kv_test::random_bytes(random, 512));
      batch.put(Family::blocks, number_key(n), kv_test::random_bytes(random, 4096));
    }
    ASSERT_NO_FATAL_FAILURE(assert_ok(store.commit(batch)));
  }
  for (const Family family : {Family::names, Family::blocks}) assert_ok(store.compact(family, "", ""));
}

void erase_every_other_range(Store& store, std::uint64_t rows) {
  ASSERT_GE(rows / 16, kv::kRangesToFlush);
  Batch batch;
  for (const Family family : {Family::names, Family::blocks}) {
    for (std::uint64_t n = 0; n < rows; n += 16) batch.erase_range(family, number_key(n), number_key(n + 8));
  }
  assert_ok(store.commit(batch));
}

// The end waits for no compaction; their tables say that they are to be compacted.
TEST(Space, WhatIsBeingReclaimedAtTheEndComesBackWithTheNextStart) {
  auto m = Machine::fresh();
  constexpr std::uint64_t kRows = 8192;
  ASSERT_NO_FATAL_FAILURE(put_rows_at_the_bottom(*m.store, kRows));
  const std::uint64_t room = m.store->room().v;
  const Waits& own = Waits::of_this_thread();
  std::atomic<int> reads = 0;
  std::atomic<bool> ending = false;
  m.disk->on_read = [&] {
    if (!kv::GiveWay::compacting()) return;
    ++reads;
    EXPECT_TRUE(until([&] { return ending || own.text().find("background work, which ends") != std::string::npos; }));
    ending = true;
  };
  ASSERT_NO_FATAL_FAILURE(erase_every_other_range(*m.store, kRows));
  EXPECT_TRUE(until([&] { return reads > 0; }));
  m.stop();
  EXPECT_LT(reads, 100);
  m.disk->on_read = [] {};
  m.start();
  EXPECT_TRUE(room_comes_back(*m.store, room + kRows / 2 * 4096 * 3 / 4));
  m.stop();
}

TEST(Space, WhatIsErasedJustBeforeTheEndComesBackWithTheNextStart) {
  for (const bool ranges : {false, true}) {
    auto m = Machine::fresh();
    constexpr std::uint64_t kRows = 8192;
    ASSERT_NO_FATAL_FAILURE(put_rows_at_the_bottom(*m.store, kRows));
    const std::uint64_t room = m.store->room().v;
    ASSERT_GE(room, m.store->space().total.v / 4) << "or the end waits";
    Batch batch;
    for (const Family family : {Family::names, Family::blocks}) {
      if (ranges) batch.erase_range(family, number_key(kRows / 4), number_key(kRows));
      for (std::uint64_t n = kRows / 4; n < kRows && !ranges; ++n) batch.erase(family, number_key(n));
    }
    assert_ok(m.store->commit(batch));
    m.stop();
    m.start();
    EXPECT_TRUE(room_comes_back(*m.store, room + kRows * 3 / 4 * 4096 * 3 / 4)) << (ranges ? "ranges" : "rows");
    m.stop();
  }
}

TEST(Space, ManySmallSyncsNeverFillTheLogRegion) {
  auto m = Machine::fresh(kDeviceMin);
  const std::uint64_t blocks = m.volume->usage().fixed_total.v / kDeviceBlock;
  for (std::uint64_t i = 0; i < blocks * 3; ++i) {
    Batch batch;
    batch.put(Family::names, number_key(i % 100), "x");
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->sync()));
  }
}

// Tables come and go, and a row keeps the whole log. (The last part of the region may all be taken before it is used.)
TEST(Space, NorDoTheyWhileMuchIsReclaimed) {
  auto m = Machine::fresh();
  constexpr std::uint64_t kRows = 8192, kSyncs = 20;
  ASSERT_NO_FATAL_FAILURE(put_rows_at_the_bottom(*m.store, kRows));
  m.stop();
  const std::uint64_t tables = plan_layout(kDeviceMin)->table.start;
  const Waits& own = Waits::of_this_thread();
  std::atomic<int> reads = 0, spilt = 0;
  std::atomic<std::uint64_t> synced = 0;
  std::atomic<bool> slow = true;
  m.disk->on_write = [&](ByteOffset at, Bytes data) {
    format::FrameHeader header;
    std::memcpy(&header, data.data(), sizeof header);
    if (at.v >= tables && header.magic == format::kFrameMagic) ++spilt;
  };
  m.disk->on_read = [&] {
    if (!kv::GiveWay::compacting()) return;
    ++reads;
    // A read takes as long as some syncs do, if nobody waits for the compaction.
    const std::uint64_t then = synced + kSyncs;
    EXPECT_TRUE(until([&] { return !slow || synced >= then || own.text().find("space, which flushes") != std::string::npos; }));
  };
  m.start();
  Batch batch;
  batch.put(Family::blocks, number_key(kRows), "row");
  assert_ok(m.store->commit(batch));
  ASSERT_NO_FATAL_FAILURE(erase_every_other_range(*m.store, kRows));
  EXPECT_TRUE(until([&] { return reads > 0; }));
  const std::uint64_t blocks = m.volume->usage().fixed_total.v / kDeviceBlock;
  for (std::uint64_t i = 0; i < blocks * 3; ++i) {
    batch.clear();
    batch.put(Family::names, number_key(i % 100), "x");
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->commit(batch)));
    ASSERT_NO_FATAL_FAILURE(assert_ok(m.store->sync()));
    ++synced;
    EXPECT_EQ(spilt, 0) << "after " << i << " syncs";
    if (HasFailure()) break;
  }
  slow = false;
  m.stop();
}

// A compaction whose space something else has taken.
class Starved : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 7 * MiB / 4096;

  // Rows at the bottom, and too little space to write them once more; memtables can be flushed.
  void SetUp() override {
    options_.clock = &clock_;
    options_.notice = [this](std::string_view line) { notices_ += line.starts_with("a compaction finds no space"); };
    m_ = Machine::fresh(kDeviceMin, options_);
    put(0, 1);
    expect_ok(m_.store->compact(Family::blocks, "", ""));
    auto writer = m_.volume->create("ballast.sst", FileKind::table);
    ASSERT_TRUE(writer);
    while (m_.volume->usage().table_free.v > 5 * MiB) {
      ASSERT_NO_FATAL_FAILURE(assert_ok((*writer)->append(as_bytes(std::string(kTableGranule, 'b')))));
    }
    expect_ok((*writer)->sync());
    expect_ok((*writer)->close());
  }
  void take_ballast_away() {
    expect_ok(m_.volume->remove("ballast.sst"));
    expect_ok(m_.volume->commit());
  }

  // Every `step`-th row from `first` on, to a table of its own.
  void put(std::uint64_t first, std::uint64_t step) {
    for (std::uint64_t n = first; n < kRows; n += step) {
      rows_[n] = kv_test::random_bytes(random_, 4096);
      Batch batch;
      batch.put(Family::blocks, number_key(n), rows_[n]);
      ASSERT_NO_FATAL_FAILURE(assert_ok(m_.store->commit(batch)));
    }
    assert_ok(m_.store->flush());
  }
  void expect_that_all_goes_on() {
    Batch batch;
    batch.erase(Family::blocks, number_key(0));
    rows_.erase(0);
    expect_ok(m_.store->commit(batch));
    expect_ok(m_.store->sync());
    expect_rows();
  }
  void expect_rows() {
    auto cursor = m_.store->cursor(Family::blocks, {});
    auto row = rows_.begin();
    for (cursor->seek(""); cursor->valid() && row != rows_.end(); cursor->next(), ++row) {
      ASSERT_EQ(cursor->key(), number_key(row->first));
      ASSERT_TRUE(cursor->value() == row->second);
    }
    expect_ok(cursor->status());
    EXPECT_TRUE(row == rows_.end() && !cursor->valid());
  }
  std::uint64_t level0_tables() const {
    const auto levels = m_.store->stats().levels;
    return levels.empty() || levels.front().level > 0 ? 0 : levels.front().files;
  }
  std::vector<std::string> tables() const { return kv_test::tables_of(*m_.volume); }

  std::mt19937_64 random_{17};
  std::atomic<int> notices_ = 0;
  test::SteppedClock clock_;
  const kv_test::PassingTime passing_{clock_};
  StoreOptions options_ = kv_test::quiet_options();
  Machine m_;
  std::map<std::uint64_t, std::string> rows_;
};

TEST_F(Starved, ACompactionThatIsAskedForSaysSoAndAllGoesOn) {
  put(0, 32);
  const auto tables_before = tables();
  const std::uint64_t free_before = m_.volume->usage().table_free.v;
  const auto refused = m_.store->compact(Family::blocks, "", "");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_TRUE(until([&] {
    expect_ok(m_.volume->commit());
    return tables() == tables_before && m_.volume->usage().table_free.v == free_before;
  }));
  expect_that_all_goes_on();

  take_ballast_away();
  expect_ok(m_.store->compact(Family::blocks, "", ""));
  EXPECT_GT(m_.store->room().v, 50 * MiB);
  put(1, 2);
  expect_rows();
  EXPECT_EQ(notices_, 0) << "whoever asked knows";
  m_.stop();
}

TEST_F(Starved, CompactionsGoOnByThemselvesWhenThereIsSpaceAgain) {
  for (std::uint64_t table = 0; table < 5; ++table) put(table, 32);
  ASSERT_TRUE(until([&] { return notices_ > 0; }));
  EXPECT_EQ(m_.store->room().v, 0u);
  expect_that_all_goes_on();
  EXPECT_GE(level0_tables(), 4u);
  EXPECT_EQ(notices_, 1);

  take_ballast_away();
  EXPECT_TRUE(until([&] { return level0_tables() < 4 && m_.store->room().v > 50 * MiB; }));
  expect_rows();
  m_.stop();
}

TEST_F(Starved, TheEndComesSoonAllTheSame) {
  for (std::uint64_t table = 0; table < 5; ++table) put(table, 32);
  ASSERT_TRUE(until([&] { return notices_ > 0; }));
  Batch batch;
  batch.erase_range(Family::blocks, number_key(0), number_key(16));
  rows_.erase(rows_.begin(), rows_.lower_bound(16));
  expect_ok(m_.store->commit(batch));
  m_.stop();
  m_.start(options_);
  expect_rows();
  take_ballast_away();
  expect_ok(m_.store->compact(Family::blocks, "", ""));
  expect_rows();
  m_.stop();
}

}  // namespace
}  // namespace lsmfs::space_test
