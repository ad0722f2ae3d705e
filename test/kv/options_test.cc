// The options on a database in memory whose tables are put into their levels by hand.
#include "kv/options.h"

#include <gtest/gtest.h>
#include <algorithm>
#include <mutex>
#include <random>

#include "kv/compact.h"
#include "kv/memory_database.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::options_test {
namespace {

using kv_test::number_key;

void must(const rocksdb::Status& status) { kv_test::MemoryDatabase::must(status); }

// What the largest compaction took in.
class Largest final : public rocksdb::EventListener {
 public:
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& job) override {
    std::lock_guard lock(mutex_);
    bytes_ = std::max(bytes_, job.stats.total_input_bytes);
    ++count_;
  }
  void forget() {
    std::lock_guard lock(mutex_);
    bytes_ = count_ = 0;
  }
  std::uint64_t bytes() const {
    std::lock_guard lock(mutex_);
    return bytes_;
  }
  std::uint64_t count() const {
    std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t bytes_ = 0, count_ = 0;
};

class Levels : public testing::Test {
 protected:
  static constexpr int kLast = 6;

  // Rows of 4 KiB with these keys, in a table of level 0.
  void put(const std::vector<std::uint64_t>& keys) {
    for (const std::uint64_t key : keys) must(db_->Put({}, number_key(key), kv_test::random_bytes(random_, 4096)));
    must(db_->Flush({}));
  }
  // In tables of `level`.
  void put(const std::vector<std::uint64_t>& keys, int level) {
    put(keys);
    std::vector<std::string> tables;
    for (const auto& table : db_.tables_of(0)) tables.push_back(table.name);
    must(db_->CompactFiles({}, tables, level));
  }

  void compact_until_quiet() {
    largest_->forget();
    must(db_->EnableAutoCompaction({db_.handle()}));
    using Properties = rocksdb::DB::Properties;
    ASSERT_TRUE(test::until([&] { return !db_.is(Properties::kCompactionPending) && !db_.is(Properties::kNumRunningCompactions); }));
  }

  const std::shared_ptr<Largest> largest_ = std::make_shared<Largest>();
  kv_test::MemoryDatabase db_{largest_, [](auto&, auto& family) { family.disable_auto_compactions = true; }};
  const kv::Sizing& sizing_ = db_.sizing();
  std::mt19937_64 random_{1};
};

// It lies below all tables of the level above.
TEST_F(Levels, ATableThatSpansAllOthersIsMergedWithAFewOfThemAtATime) {
  constexpr std::uint64_t kTables = 60, kRows = 400;
  put({0, kTables * kRows + 1}, kLast);
  for (std::uint64_t table = 0; table < kTables; ++table) {
    std::vector<std::uint64_t> keys(kRows);
    for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = table * kRows + i + 1;
    put(keys, kLast - 1);
  }
  compact_until_quiet();
  EXPECT_GT(largest_->count(), 2u);
  EXPECT_LE(largest_->bytes(), sizing_.compaction + 4 * sizing_.table);
}

// RocksDB may choose tables of level 0 to move, and must write them after all when they lie over too much.
TEST_F(Levels, NoTableOfLevel0ComesToLieOverMoreThanACompactionTakesIn) {
  const std::uint64_t rows = 2 * sizing_.compaction / 4096, piece = 400;
  const auto every = [](std::uint64_t from, std::uint64_t to, std::uint64_t step) {
    std::vector<std::uint64_t> keys;
    for (std::uint64_t key = from; key < to; key += step) keys.push_back(key);
    return keys;
  };
  for (std::uint64_t row = 0; row < rows; row += piece) put(every(row, row + piece, 1), kLast);
  put(every(0, 8, 1), kLast - 1);
  for (std::uint64_t i = 0; i < 4; ++i) put(every(100 + i, rows, 64));
  compact_until_quiet();
  for (const auto& table : db_.tables_of(kLast - 1)) {
    std::uint64_t below = 0;
    for (const auto& other : db_.tables_of(kLast)) {
      below += other.largestkey >= table.smallestkey && other.smallestkey <= table.largestkey ? other.size : 0;
    }
    EXPECT_LE(table.size + below, sizing_.compaction + 3 * sizing_.table);
  }
}

// Two small tables, below which lies nearly everything, are next to each other in their level.
TEST_F(Levels, AWideRangeIsCompactedInPieces) {
  constexpr std::uint64_t kTables = 60, kRows = 400;
  for (std::uint64_t table = 0; table < kTables; ++table) {
    std::vector<std::uint64_t> keys(kRows);
    for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = table * kRows + i;
    put(keys, kLast);
  }
  put({1, 2, 3}, kLast - 1);
  put({kTables * kRows - 2, kTables * kRows - 1}, kLast - 1);
  largest_->forget();
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kSkip;
  must(kv::compact_in_pieces(*db_, db_.handle(), options, number_key(0), number_key(kTables * kRows), sizing_.piece));
  EXPECT_EQ(largest_->count(), 2u) << "what lies between is left alone";
  EXPECT_LE(largest_->bytes(), sizing_.piece + 2 * sizing_.table);
  EXPECT_TRUE(db_.tables_of(kLast - 1).empty());
}

TEST_F(Levels, PiecesCoverTheRange) {
  constexpr std::uint64_t kRows = 3000;
  std::vector<std::uint64_t> keys(kRows);
  for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = i;
  put(keys, 6);
  for (std::uint64_t i = 0; i < kRows; i += 2) must(db_->Delete({}, number_key(i)));
  must(kv::compact_in_pieces(*db_, db_.handle(), kv::compact_options(), "", "", MiB));
  std::uint64_t rows = 0, entries = 0;
  const std::unique_ptr<rocksdb::Iterator> cursor(db_->NewIterator({}));
  for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next()) ++rows;
  rocksdb::TablePropertiesCollection tables;
  must(db_->GetPropertiesOfAllTables(&tables));
  for (const auto& [name, table] : tables) entries += table->num_entries;
  EXPECT_EQ(rows, kRows / 2);
  EXPECT_EQ(entries, kRows / 2) << "no tombstone is left";
}

}  // namespace
}  // namespace lsmfs::options_test
