// Whole tables are read for the sake of their checksums.
#include <gtest/gtest.h>

#include <set>

#include "kv/support.h"

namespace lsmfs::verify_test {
namespace {

using kv_test::Disk;
using kv_test::expect_ok;
using kv_test::kFooter;
using kv_test::Machine;
using kv_test::number_key;
using kv_test::place_of;
using kv_test::random_bytes;


class Verify : public testing::Test {
 protected:
  // A store with one table in each family; which may not be empty.
  Verify() : machine_(Machine::fresh()) {
    std::mt19937_64 random(1);
    Batch batch;
    for (std::uint64_t i = 0; i < 1500; ++i) batch.put(Family::names, number_key(i), random_bytes(random, 96));
    for (std::uint64_t i = 0; i < 150; ++i) batch.put(Family::blocks, number_key(i), random_bytes(random, 4096));
    expect_ok(machine_.store->commit(batch));
    machine_.stop();
    auto volume = Volume::open(machine_.disk->device());
    EXPECT_TRUE(volume);
    for (const std::string& name : kv_test::tables_of(**volume)) {
      tables_.push_back({name, place_of(*machine_.disk, **volume, name), (*volume)->size_of(name)->v});
    }
  }

  std::unique_ptr<Disk> with_flipped_bit(std::uint64_t at) {
    auto disk = machine_.disk->copy();
    disk->flip(at);
    return disk;
  }

  void put(Disk& disk, std::uint64_t at, std::string_view bytes) {
    for (const char byte : bytes) {
      AlignedBuffer block(4096);
      const ByteOffset from{round_down(at, 4096)};
      EXPECT_TRUE(disk.memory().read(from, block.bytes()));
      block.data()[at++ % 4096] = static_cast<std::byte>(byte);
      EXPECT_TRUE(disk.memory().write(from, block.bytes()));
    }
  }

  // The lines about both families; that the store does not even open is a line as well.
  static std::vector<std::string> verify(Disk& disk) {
    auto volume = Volume::open(disk.device());
    EXPECT_TRUE(volume);
    StoreOptions options = kv_test::quiet_options();
    options.read_only = true;
    auto store = Store::open(**volume, options);
    if (!store) {
      EXPECT_EQ(store.error().code, EUCLEAN) << store.error().message();
      return {store.error().context};
    }
    std::vector<std::string> lines;
    for (const Family family : {Family::names, Family::blocks}) {
      const auto damaged = (*store)->verify(family);
      EXPECT_TRUE(damaged) << damaged.error().message();
      if (damaged) lines.insert(lines.end(), damaged->begin(), damaged->end());
    }
    return lines;
  }

  struct Table {
    std::string name;
    std::uint64_t place, size;
  };
  Machine machine_;
  std::vector<Table> tables_;
};

TEST_F(Verify, SoundTablesAreNotReported) {
  ASSERT_EQ(tables_.size(), 2u);
  EXPECT_TRUE(verify(*machine_.disk->copy()).empty());
}

TEST_F(Verify, AFlippedBitAnywhereInATableIsFound) {
  for (const Table& table : tables_) {
    // Samples, many of them at the end, where indexes, filters and properties are.
    constexpr std::uint64_t kEnd = 9000;
    std::vector<std::uint64_t> places;
    for (std::uint64_t at = 0; at < table.size - kEnd; at += table.size / 40) places.push_back(at);
    for (std::uint64_t at = table.size - kEnd; at < table.size; at += 61) places.push_back(at);
    std::uint64_t found = 0;
    for (const std::uint64_t at : places) {
      auto disk = with_flipped_bit(table.place + at);
      const auto lines = verify(*disk);
      // The footer is short of what it has room for, and its padding means nothing.
      if (lines.empty() && at >= table.size - kFooter && at < table.size - 12) continue;
      ASSERT_FALSE(lines.empty()) << table.name << ", byte " << at << " of " << table.size;
      // RocksDB does not always say which table kept it from opening.
      EXPECT_TRUE(lines.front().starts_with("table " + table.name) || lines.front().starts_with("open the store")) << lines.front();
      ++found;
    }
    EXPECT_GT(found, 150u);
  }
}

// No checksum covers the footer, which says where the index is.
TEST_F(Verify, AFooterThatPointsOutsideOfItsTableIsDamage) {
  const Table& table = tables_.front();
  const std::uint64_t footer = table.place + table.size - kFooter;
  for (const std::uint64_t huge : {table.size, std::uint64_t{1} << 40, std::uint64_t{1} << 62, UINT64_MAX - 5, UINT64_MAX}) {
    for (const auto& [offset, size] : {std::pair{huge, std::uint64_t{100}}, std::pair{std::uint64_t{100}, huge}}) {
      for (const bool of_index : {false, true}) {
        std::string handles;
        for (const bool wrong : {!of_index, of_index}) {
          put_varint(handles, wrong ? offset : 0);
          put_varint(handles, wrong ? size : 100);
        }
        auto disk = machine_.disk->copy();
        put(*disk, footer + 1, handles);
        EXPECT_FALSE(verify(*disk).empty()) << offset << ' ' << size;
      }
    }
  }
}

TEST_F(Verify, EachDamagedTableIsReported) {
  auto disk = with_flipped_bit(tables_[0].place + 5000);
  machine_.disk = std::move(disk);
  const auto lines = verify(*with_flipped_bit(tables_[1].place + 5000));
  ASSERT_EQ(lines.size(), 2u);
  for (const Table& table : tables_) {
    EXPECT_TRUE(lines[0].starts_with("table " + table.name + ": ") || lines[1].starts_with("table " + table.name + ": "));
  }
}

TEST_F(Verify, ADeviceThatCannotBeReadIsNoDamage) {
  StoreOptions options = kv_test::quiet_options();
  options.read_only = true;
  machine_.start(options);
  machine_.disk->fail_reads_from = machine_.disk->reads + 1;
  EXPECT_EQ(machine_.store->verify(Family::blocks).error().code, EIO);
}

// RocksDB's iterators come from the end of one table to a block that they cannot read, and some versions take that for the end.
TEST(Cursors, DoNotPassOverADamagedTable) {
  std::mt19937_64 random(5);
  auto m = Machine::fresh();
  Batch batch;
  for (std::uint64_t row = 0; row < 2000; ++row) {
    batch.put(Family::blocks, number_key(row), random_bytes(random, 4096));
    if (row % 100 != 99) continue;
    expect_ok(m.store->commit(batch));
    batch.clear();
  }
  expect_ok(m.store->compact(Family::blocks, "", ""));
  m.stop();
  int damaged = 0;
  {
    auto volume = Volume::open(m.disk->device());
    ASSERT_TRUE(volume);
    for (const std::string& name : kv_test::tables_of(**volume)) {
      if ((*volume)->size_of(name)->v < MiB) continue;
      if (damaged++ > 0) m.disk->flip(place_of(*m.disk, **volume, name) + 1000);  // in the first block
    }
  }
  ASSERT_GE(damaged, 3);
  StoreOptions options = kv_test::quiet_options();
  options.read_only = true;
  m.start(options);
  for (const std::string& upper : {std::string(), number_key(1900)}) {
    const auto cursor = m.store->cursor(Family::blocks, {.lower = {}, .upper = upper});
    std::uint64_t rows = 0;
    for (cursor->seek(""); cursor->valid(); cursor->next()) ++rows;
    EXPECT_LT(rows, 1900u);
    const auto status = cursor->status();
    ASSERT_FALSE(status) << "after " << rows << " rows";
    EXPECT_EQ(status.error().code, EUCLEAN);
  }
}

}  // namespace
}  // namespace lsmfs::verify_test
