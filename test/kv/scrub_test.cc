// Store::scrub(): tables are verified as they are on the device, below a store that is open and has all of them cached.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "kv/support.h"

namespace lsmfs::scrub_test {
namespace {

using kv_test::Disk;
using kv_test::expect_ok;
using kv_test::kFooter;
using kv_test::Machine;
using kv_test::number_key;
using kv_test::place_of;
using kv_test::random_bytes;

constexpr std::uint64_t kNames = 1500, kBlocks = 150;
const Stop kNever = [] { return false; };

class ScrubStore : public testing::Test {
 protected:
  struct Table {
    std::string name;
    std::uint64_t place, size;
  };
  struct Found {
    std::uint64_t read = 0;
    std::vector<StoreScrubStep::Damage> damage;
  };

  // A store with one table in each family.
  ScrubStore() : machine_(Machine::fresh()) {
    fill(0);
    expect_ok(machine_.store->flush());
    for (const std::string& name : kv_test::tables_of(*machine_.volume)) {
      tables_.push_back({name, place_of(*machine_.disk, *machine_.volume, name), machine_.volume->size_of(name)->v});
    }
    EXPECT_EQ(tables_.size(), 2u);
  }

  // A store that sets nothing aside.
  void open_read_only() {
    machine_.stop();
    StoreOptions options = kv_test::quiet_options();
    options.read_only = true;
    machine_.start(options);
  }

  void fill(std::uint64_t from) {
    std::mt19937_64 random(1 + from);
    Batch batch;
    for (std::uint64_t i = 0; i < kNames; ++i) batch.put(Family::names, number_key(from + i), random_bytes(random, 96));
    for (std::uint64_t i = 0; i < kBlocks; ++i) batch.put(Family::blocks, number_key(from + i), random_bytes(random, 4096));
    expect_ok(machine_.store->commit(batch));
  }

  void flip(std::uint64_t at) { machine_.disk->flip(at); }

  void read_all() {
    for (const Family family : {Family::names, Family::blocks}) {
      auto cursor = machine_.store->cursor(family, {});
      std::uint64_t rows = 0;
      for (cursor->seek(""); cursor->valid(); cursor->next()) ++rows;
      EXPECT_EQ(rows, family == Family::names ? kNames : kBlocks);
      expect_ok(cursor->status());
    }
  }

  Found scrub(ScrubPosition position = {}) {
    Found found;
    for (int steps = 0; position.part < ScrubPosition::kStoreParts; ++steps) {
      auto step = machine_.store->scrub(position, kNever);
      if (!step || steps > 1000) {
        ADD_FAILURE() << (step ? "it has no end" : step.error().message());
        break;
      }
      found.read += step->read.v;
      for (auto& damage : step->damage) found.damage.push_back(std::move(damage));
    }
    return found;
  }

  Machine machine_;
  std::vector<Table> tables_;
};

TEST_F(ScrubStore, ASoundStoreIsReadToItsEnd) {
  ScrubPosition position;
  std::uint64_t read = 0, left = 0;
  bool first = true;
  while (position.part < ScrubPosition::kStoreParts) {
    const auto step = machine_.store->scrub(position, kNever);
    ASSERT_TRUE(step) << step.error().message();
    EXPECT_TRUE(step->damage.empty());
    if (!first) {
      EXPECT_EQ(step->left.v + step->read.v, left) << "nothing changes meanwhile";
    }
    first = false;
    left = step->left.v;
    read += step->read.v;
  }
  EXPECT_EQ(left, 0u);
  EXPECT_GT(read, machine_.store->stats().table_bytes + 2 * 4096);
  const auto again = machine_.store->scrub(position, kNever);
  EXPECT_TRUE(again && again->read.v == 0) << "there is nothing beyond the end";
}

TEST_F(ScrubStore, AFlippedBitAnywhereInATableIsFoundThoughAllIsCached) {
  open_read_only();
  read_all();
  for (const Table& table : tables_) {
    // Samples, many of them at the end, where indexes, filters and properties are.
    constexpr std::uint64_t kEnd = 9000;
    std::vector<std::uint64_t> places;
    for (std::uint64_t at = 0; at < table.size - kEnd; at += table.size / 40) places.push_back(at);
    for (std::uint64_t at = table.size - kEnd; at < table.size; at += 61) places.push_back(at);
    std::uint64_t found = 0;
    for (const std::uint64_t at : places) {
      flip(table.place + at);
      const auto damage = scrub().damage;
      flip(table.place + at);
      // The footer is short of what it has room for, and its padding means nothing.
      if (damage.empty() && at >= table.size - kFooter && at < table.size - 12) continue;
      ASSERT_EQ(damage.size(), 1u) << table.name << ", byte " << at << " of " << table.size;
      EXPECT_TRUE(damage[0].line.starts_with("table " + table.name + " is damaged: ")) << damage[0].line;
      ++found;
    }
    EXPECT_GT(found, 150u);
  }
  const std::uint64_t reads = machine_.disk->reads;
  read_all();
  EXPECT_EQ(machine_.disk->reads, reads) << "it was cached all the time";
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(ScrubStore, TheRowsAroundTheDamageAreNamed) {
  open_read_only();
  const Table& blocks = *std::ranges::max_element(tables_, {}, &Table::size);
  const Table& names = *std::ranges::min_element(tables_, {}, &Table::size);
  const auto rows = [&](std::uint64_t at, const Table& table) {
    flip(table.place + at);
    const auto damage = scrub().damage;
    flip(table.place + at);
    EXPECT_EQ(damage.size(), 1u);
    return damage.size() == 1 ? damage[0].rows : std::nullopt;
  };
  const auto number = [](const std::string& key) {
    Reader in(key);
    in.u8();
    return in.be64();
  };
  // A block of the table holds sixteen rows.
  const auto middle = rows(blocks.size / 2, blocks);
  ASSERT_TRUE(middle);
  EXPECT_EQ(middle->family, Family::blocks);
  EXPECT_NEAR(static_cast<double>(number(middle->after)), kBlocks / 2.0, 20);
  EXPECT_GT(number(middle->before), number(middle->after));
  EXPECT_LE(number(middle->before), number(middle->after) + 20);
  const auto first = rows(100, blocks);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->after, "");
  EXPECT_LE(number(first->before), 20u);
  // The filter concerns no rows. Without the index none can be found.
  std::uint64_t none = 0, all = 0;
  for (std::uint64_t at = names.size - 6000; at < names.size - kFooter; at += 100) {
    const auto found = rows(at, names);
    none += !found;
    all += found && number(found->after) == 0 && number(found->before) == kNames - 1;
  }
  EXPECT_GT(none, 5u);
  EXPECT_GT(all, 0u);
}

TEST_F(ScrubStore, APartOfATableThatCannotBeReadIsDamageAndStopsNothing) {
  read_all();
  ScrubPosition position;
  while (position.part < 2) ASSERT_TRUE(machine_.store->scrub(position, kNever));
  machine_.disk->fail_reads_from = machine_.disk->reads + 1;
  const auto damage = scrub(position).damage;
  machine_.disk->fail_reads_from = 0;
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_NE(damage[0].line.find(" cannot be read: "), std::string::npos) << damage[0].line;
  fill(10'000);
  expect_ok(machine_.store->sync());
  expect_ok(machine_.store->flush());
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(ScrubStore, TablesThatAreCompactedAwayAreNoDamageAndThoseThatComeAreLeftAlone) {
  fill(kNames);
  expect_ok(machine_.store->flush());
  ScrubPosition position;
  while (position.part < 2) ASSERT_TRUE(machine_.store->scrub(position, kNever));
  ASSERT_TRUE(machine_.store->scrub(position, kNever));  // the first of two tables of blocks
  ASSERT_EQ(position.part, 2u);
  expect_ok(machine_.store->compact(Family::blocks, "", ""));
  fill(10 * kNames);
  expect_ok(machine_.store->flush());
  // The device of the tables that are gone may hold anything.
  const Found rest = scrub(position);
  EXPECT_TRUE(rest.damage.empty());
  EXPECT_EQ(rest.read, 0u);
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(ScrubStore, OfAReadOnlyStore) {
  fill(kNames);
  machine_.stop();
  StoreOptions options = kv_test::quiet_options();
  options.read_only = true;
  machine_.start(options);
  const std::uint64_t writes = machine_.disk->writes;
  EXPECT_TRUE(scrub().damage.empty());
  flip(tables_[0].place + 5000);
  flip(tables_[1].place + 5000);
  EXPECT_EQ(scrub().damage.size(), 2u);
  EXPECT_EQ(machine_.disk->writes, writes);
}

TEST_F(ScrubStore, TheVolumesOwnDamageIsToldAsWell) {
  flip(1000);
  const auto damage = scrub().damage;
  ASSERT_EQ(damage.size(), 1u);
  EXPECT_NE(damage[0].line.find("the first superblock is damaged"), std::string::npos);
  EXPECT_FALSE(damage[0].rows);
}

TEST_F(ScrubStore, ItStopsWhenItIsToldAlsoWithinATable) {
  for (std::uint64_t part = 0; part < ScrubPosition::kStoreParts; ++part) {
    ScrubPosition position{part, {}};
    EXPECT_EQ(machine_.store->scrub(position, [] { return true; }).error().code, EINTR);
    EXPECT_EQ(position.part, part);
    int asked = 0;
    position = {part, {}};
    if (part > 0) {
      EXPECT_EQ(machine_.store->scrub(position, [&] { return ++asked > 3; }).error().code, EINTR);
    }
  }
}

TEST_F(ScrubStore, APositionMayBeAnything) {
  for (const std::uint64_t part : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{3}, UINT64_MAX}) {
    for (const std::uint64_t next : {std::uint64_t{0}, std::uint64_t{9}, UINT64_MAX}) {
      for (const std::uint64_t end : {std::uint64_t{0}, std::uint64_t{9}, UINT64_MAX}) {
        EXPECT_TRUE(scrub({part, {next, end}}).damage.empty());
      }
    }
  }
}

TEST_F(ScrubStore, GoesOnBesideWritesAndCompactions) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    for (std::uint64_t i = 1; !stop; ++i) {
      fill(i % 5 * kNames / 2);
      expect_ok(machine_.store->sync());
      if (i % 3 == 0) expect_ok(machine_.store->flush());
      if (i % 7 == 0) expect_ok(machine_.store->compact(Family::blocks, "", ""));
    }
  });
  for (int i = 0; i < 20; ++i) {
    for (const auto& damage : scrub().damage) ADD_FAILURE() << damage.line;
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace lsmfs::scrub_test
