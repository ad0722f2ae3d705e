#include "kv/small_tables.h"

#include <gtest/gtest.h>

#include <thread>

#include "gate.h"
#include "kv/memory_database.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::small_tables_test {
namespace {

constexpr std::uint64_t kTarget = 2 * MiB;

// The last level, under another: tables of so many bytes.
rocksdb::ColumnFamilyMetaData levels(const std::vector<std::uint64_t>& sizes) {
  rocksdb::ColumnFamilyMetaData facts;
  std::vector<rocksdb::SstFileMetaData> files(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    files[i].size = sizes[i];
    files[i].name = std::to_string(i);
  }
  facts.levels.emplace_back(0, 0, std::vector<rocksdb::SstFileMetaData>());
  facts.levels.emplace_back(5, 0, std::vector<rocksdb::SstFileMetaData>(3));
  facts.levels.emplace_back(6, 0, std::move(files));
  return facts;
}

std::string merged(const std::vector<std::uint64_t>& sizes) {
  std::string names;
  for (const std::string& name : kv::small_neighbours(levels(sizes), kTarget)) names += name;
  return names;
}

TEST(SmallTables, BecomeOneWhereThatTakesHalfAtMost) {
  EXPECT_EQ(merged({}), "");
  EXPECT_EQ(merged({100}), "");
  EXPECT_EQ(merged({100, 100}), "01");
  EXPECT_EQ(merged({MiB, MiB}), "") << "nothing is won";
  EXPECT_EQ(merged({2 * MiB, 100, 100, 100, 2 * MiB}), "123");
  EXPECT_EQ(merged({100, 100, 2 * MiB, 100, 100, 100, 2 * MiB}), "345") << "most is lost there";
  EXPECT_EQ(merged({100, 2 * MiB, 100, 2 * MiB}), "") << "no neighbours";
  const std::vector<std::uint64_t> many(1000, 10'000);
  EXPECT_EQ(kv::small_neighbours(levels(many), kTarget).size(), kTarget / 10'000);
}

TEST(SmallTables, LoseOfTheVolumeWhatTheyDoNotFill) {
  EXPECT_EQ(kv::lost_in_small_tables(levels({}), kTarget), 0u);
  EXPECT_EQ(kv::lost_in_small_tables(levels({1000, kTarget - 1, 2000}), kTarget), 2 * kTableGranule - 3000);
}

// Each unmount writes what there is, and it is only moved.
TEST(SmallTables, OfManyUnmountsAreMerged) {
  auto m = kv_test::Machine::fresh();
  const std::uint64_t before = m.store->room().v;
  Batch batch;
  m.store->note_rows(0);
  constexpr int kTimes = 200;
  for (int i = 0; i < kTimes; ++i) {
    batch.clear();
    batch.put(Family::blocks, kv_test::number_key(i), "a row");
    batch.note_rows(i + 1);
    kv_test::assert_ok(m.store->commit(batch));
    kv_test::expect_ok(m.store->flush());
  }
  EXPECT_GE(m.store->room().v + kTimes / 2 * kTableGranule, before);
  for (int i = 0; i < kTimes; ++i) {
    const auto row = m.store->get(Family::blocks, kv_test::number_key(i), Wait::yes);
    ASSERT_TRUE(row && *row);
    EXPECT_EQ(**row, "a row");
  }
  m.stop();
}

// RocksDB would move it there beside the merge, and one of its assertions would fail.
TEST(SmallTables, AreMergedBeforeATableOfLevel0ComesBetweenThem) {
  struct Listener : rocksdb::EventListener {
    void OnTableFileCreationStarted(const rocksdb::TableFileCreationBriefInfo& info) override {
      const bool passed = info.reason != rocksdb::TableFileCreationReason::kCompaction || gate.pass();
      EXPECT_TRUE(passed);
    }
    test::Gate gate;
  };
  const auto listener = std::make_shared<Listener>();
  kv_test::MemoryDatabase db(listener, [](auto& options, auto& family) {
    options.max_background_jobs = 4;  // so that others run beside the merge
    family.level0_file_num_compaction_trigger = 1;
  });
  const auto write = [&](int from) {
    for (int row = from; row < from + 10; ++row) db.must(db->Put({}, kv_test::number_key(row), "a row"));
    db.must(db->Flush({}));
  };
  const auto has_sunk = [&] {
    return test::until([&] { return db.tables_of(0).empty(); });
  };
  for (const int from : {0, 100}) {
    write(from);
    ASSERT_TRUE(has_sunk());
  }
  std::thread merging([&] { EXPECT_TRUE(kv::merge_small_neighbours(*db, db.handle(), kTarget)); });
  EXPECT_TRUE(listener->gate.await(1));
  for (const int from : {50, 60}) write(from);  // of which two make RocksDB hurry
  db.await_background();
  EXPECT_EQ(db.tables_of(0).size(), 2u);
  listener->gate.open();
  merging.join();
  EXPECT_TRUE(has_sunk()) << "it comes later";
}

}  // namespace
}  // namespace lsmfs::small_tables_test
