// The options on a database in memory whose tables are put into their levels by hand.
#include "kv/options.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include <algorithm>
#include <mutex>
#include <random>

#include "kv/compact.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::options_test {
namespace {

using kv_test::number_key;

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
  Levels() {
    VolumeUsage usage;
    usage.table_total = usage.table_free = ByteCount{448 * MiB};
    usage.fixed_total = usage.fixed_free = ByteCount{32 * MiB};
    sizing_ = kv::Sizing::plan(usage, ByteCount{64 * MiB});
    const kv::OptionParts parts{env_.get(), nullptr, largest_, kv::Caches(sizing_.cache)};
    rocksdb::DBOptions options = kv::db_options(sizing_, parts, true);
    options.use_direct_reads = false;
    rocksdb::ColumnFamilyOptions family = kv::family_options(Family::blocks, sizing_, parts);
    family.disable_auto_compactions = true;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    must(rocksdb::DB::Open(options, "/db", {{kv::kNamesFamily, family}}, &handles, &db));
    db_.reset(db);
    handle_ = handles.front();
  }
  ~Levels() override {
    must(db_->DestroyColumnFamilyHandle(handle_));
    must(db_->Close());
  }

  static void must(const rocksdb::Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

  // Rows of 4 KiB with these keys, in tables of `level`.
  void put(const std::vector<std::uint64_t>& keys, int level) {
    for (const std::uint64_t key : keys) must(db_->Put({}, number_key(key), kv_test::random_bytes(random_, 4096)));
    must(db_->Flush({}));
    rocksdb::ColumnFamilyMetaData facts;
    db_->GetColumnFamilyMetaData(&facts);
    std::vector<std::string> tables;
    for (const auto& table : facts.levels[0].files) tables.push_back(table.name);
    must(db_->CompactFiles({}, tables, level));
  }

  void compact_until_quiet() {
    largest_->forget();
    must(db_->EnableAutoCompaction({handle_}));
    const auto is = [this](const std::string& property) {
      std::uint64_t value = 0;
      return db_->GetIntProperty(property, &value) && value > 0;
    };
    using Properties = rocksdb::DB::Properties;
    ASSERT_TRUE(test::until([&] { return !is(Properties::kCompactionPending) && !is(Properties::kNumRunningCompactions); }));
  }

  std::unique_ptr<rocksdb::Env> env_{rocksdb::NewMemEnv(rocksdb::Env::Default())};
  std::shared_ptr<Largest> largest_ = std::make_shared<Largest>();
  kv::Sizing sizing_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* handle_ = nullptr;
  std::mt19937_64 random_{1};
};

// It lies below all tables of the level above.
TEST_F(Levels, ATableThatSpansAllOthersIsMergedWithAFewOfThemAtATime) {
  constexpr int kLast = 6;
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

// Two small tables, below which lies nearly everything, are next to each other in their level.
TEST_F(Levels, AWideRangeIsCompactedInPieces) {
  constexpr int kLast = 6;
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
  must(kv::compact_in_pieces(*db_, handle_, options, number_key(0), number_key(kTables * kRows), sizing_.piece));
  EXPECT_EQ(largest_->count(), 2u) << "what lies between is left alone";
  EXPECT_LE(largest_->bytes(), sizing_.piece + 2 * sizing_.table);
  rocksdb::ColumnFamilyMetaData facts;
  db_->GetColumnFamilyMetaData(&facts);
  EXPECT_TRUE(facts.levels[kLast - 1].files.empty());
}

TEST_F(Levels, PiecesCoverTheRange) {
  constexpr std::uint64_t kRows = 3000;
  std::vector<std::uint64_t> keys(kRows);
  for (std::uint64_t i = 0; i < kRows; ++i) keys[i] = i;
  put(keys, 6);
  for (std::uint64_t i = 0; i < kRows; i += 2) must(db_->Delete({}, number_key(i)));
  must(kv::compact_in_pieces(*db_, handle_, kv::compact_options(), "", "", MiB));
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
