// A damaged part of a table costs the rows in it, and nothing else: damage is met by readers, compactions and scrubs of a store in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "clock.h"
#include "kv/footer.h"
#include "kv/passing_time.h"
#include "kv/set_aside.h"
#include "kv/store.h"
#include "kv/support.h"
#include "until.h"

namespace lsmfs::quarantine_test {
namespace {

using kv_test::expect_ok;
using kv_test::Machine;
using kv_test::number_key;
using kv_test::place_of;
using kv_test::random_bytes;
using kv_test::tables_of;

using Rows = std::map<std::string, std::string>;
const Stop kNever = [] { return false; };

class QuarantineStore : public testing::Test {
 protected:
  static constexpr std::uint64_t kRows = 480;  // of which a block holds less than an eighth
  static std::size_t row_size(Family family) { return family == Family::names ? 400 : 4000; }

  QuarantineStore() {
    options_.notice = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
    options_.describe = [](const LostRange&) { return std::string("what is here"); };
    machine_ = Machine::fresh(512 * MiB, options_);
  }

  Store& store() { return *machine_.store; }
  void settle() {
    ASSERT_TRUE(test::until([&] { return static_cast<const RocksStore&>(store()).idle(); }));
  }
  void again() {
    machine_.stop();
    machine_.start(options_);
  }

  // Every `step`th row from `from` on, with new values.
  void put(Family family, std::uint64_t from = 0, std::uint64_t to = kRows, std::uint64_t step = 1) {
    Batch batch;
    for (std::uint64_t i = from; i < to; i += step) {
      const std::string value = random_bytes(random_, row_size(family));
      batch.put(family, number_key(i), value);
      rows_[family][number_key(i)] = value;
    }
    expect_ok(store().commit(batch));
  }
  // A table at the bottom.
  void sink(Family family) {
    expect_ok(store().flush());
    expect_ok(store().compact(family, "", ""));
    settle();
  }

  // Damages what lies at such a part of a table that came since `before`.
  void damage(const std::vector<std::string>& before, double part) {
    std::vector<std::string> fresh = tables_of(*machine_.volume);
    std::erase_if(fresh, [&](const std::string& name) { return std::ranges::count(before, name) > 0; });
    ASSERT_FALSE(fresh.empty());
    damage_table(fresh.front(), part);
  }
  void damage_table(const std::string& name, double part) {
    damage_at(name, static_cast<std::uint64_t>(static_cast<double>(machine_.volume->size_of(name)->v) * part));
  }
  void damage_at(const std::string& name, std::uint64_t at) {
    expect_ok(store().drop_caches());
    machine_.disk->flip(place_of(*machine_.disk, *machine_.volume, name) + at);
  }
  // One in the middle cannot be read from now on.
  void lose_sector(const std::string& name) {
    expect_ok(store().drop_caches());
    const std::uint64_t place = place_of(*machine_.disk, *machine_.volume, name);
    const std::uint64_t sector = round_down(place + machine_.volume->size_of(name)->v / 2, kDeviceBlock);
    machine_.disk->lost_from = sector;
    machine_.disk->lost_to = sector + kDeviceBlock;
  }
  std::string footer_of(const std::string& name) {
    const auto reader = machine_.volume->open_reader(name);
    std::string footer(kv::kFooterSize, '\0');
    EXPECT_TRUE((*reader)->read(ByteOffset{(*reader)->size().v - footer.size()}, {reinterpret_cast<std::byte*>(footer.data()), footer.size()}));
    return footer;
  }
  std::string only_table(Family family) {
    const auto names = tables_of(*machine_.volume);
    EXPECT_EQ(names.size(), 1u) << "of family " << static_cast<int>(family);
    return names.front();
  }

  // Puts all rows into one table at the bottom.
  std::string filled_table(Family family) {
    put(family);
    sink(family);
    return only_table(family);
  }

  // Reads all rows, so that damage is met, and waits until it is set aside.
  void meet_damage(Family family) {
    for (const auto& [key, value] : rows_[family]) (void)store().get(family, key, Wait::yes);
    settle();
  }
  // The keys that cannot be read; all others have to be right.
  std::set<std::string> unreadable(Family family) {
    std::set<std::string> keys;
    for (const auto& [key, value] : rows_[family]) {
      const auto got = store().get(family, key, Wait::yes);
      if (!got) {
        EXPECT_EQ(got.error().code, EUCLEAN) << got.error().message();
        keys.insert(key);
      } else if (!*got || **got != value) {
        ADD_FAILURE() << "a row is " << (*got ? "wrong" : "missing");
      }
    }
    // A cursor from each key on says the same of it.
    for (const auto& [key, value] : rows_[family]) {
      auto cursor = store().cursor(family, {.lower = key, .upper = key + '\0'});
      cursor->seek(key);
      if (keys.contains(key)) {
        EXPECT_FALSE(cursor->valid());
        EXPECT_FALSE(cursor->status());
      } else {
        expect_ok(cursor->status());
        EXPECT_TRUE(cursor->valid() && cursor->value() == value);
      }
    }
    return keys;
  }

  // By the next merge, and no other row is lost then, or by a restart.
  void expect_that_it_goes(Family family, const std::string& table, const std::set<std::string>& lost) {
    expect_ok(store().compact(family, "", ""));
    settle();
    EXPECT_FALSE(machine_.volume->exists(table));
    EXPECT_EQ(unreadable(family), lost);
    again();
    EXPECT_EQ(unreadable(family), lost);
  }

  bool scrub_finds_nothing(ScrubPosition position = {}) {
    bool clean = true;
    while (position.part < ScrubPosition::kStoreParts) {
      const auto step = store().scrub(position, kNever);
      if (!step) {
        ADD_FAILURE() << step.error().message();
        return false;
      }
      clean = clean && step->damage.empty();
    }
    return clean;
  }

  bool told(std::string_view words) {
    const std::lock_guard lock(mutex_);
    return std::ranges::any_of(lines_, [&](const std::string& line) { return line.find(words) != std::string::npos; });
  }

  StoreOptions options_ = kv_test::quiet_options();
  std::mutex mutex_;
  std::vector<std::string> lines_;
  Machine machine_;
  std::map<Family, Rows> rows_;
  std::mt19937_64 random_{7};
};

class OfFamily : public QuarantineStore, public testing::WithParamInterface<Family> {};

TEST_P(OfFamily, ACompactionPassesADamagedBlockAndOnlyItsRowsAreLost) {
  const Family family = GetParam();
  damage_table(filled_table(family), 0.4);

  (void)store().compact(family, "", "");  // which may fail, but for the last time
  settle();
  const auto lost = unreadable(family);
  ASSERT_FALSE(lost.empty());
  EXPECT_LT(lost.size(), kRows / 8);
  EXPECT_TRUE(told("is damaged: what is here cannot be read"));
  EXPECT_FALSE(scrub_finds_nothing());
  EXPECT_TRUE(tables_of(*machine_.volume).size() > 0);

  // Everything else goes on.
  put(family, 10'000, 11'000);
  expect_ok(store().sync());
  expect_ok(store().flush());
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
  again();
  EXPECT_EQ(unreadable(family), lost);

  // What is written anew or erased heals.
  Batch batch;
  bool erases = false;
  for (const std::string& key : lost) {
    if (erases) {
      batch.erase(family, key);
      rows_[family].erase(key);
    } else {
      batch.put(family, key, rows_[family][key]);
    }
    erases = !erases;
  }
  expect_ok(store().commit(batch));
  EXPECT_TRUE(unreadable(family).empty());
  // Between these keys of names there might have been others.
  EXPECT_EQ(store().lost().empty(), family == Family::blocks);
  batch.clear();
  batch.know(family, *lost.begin(), *lost.rbegin());
  batch.erase_range(family, *lost.rbegin() + '\0', number_key(kRows - 1));
  batch.put(family, "k", "");
  std::erase_if(rows_[family], [&](const auto& row) { return row.first > *lost.rbegin() && row.first < number_key(kRows - 1); });
  batch.know(family, number_key(0), *lost.begin());
  expect_ok(store().commit(batch));
  EXPECT_TRUE(store().lost().empty());
  EXPECT_TRUE(unreadable(family).empty());
  EXPECT_TRUE(scrub_finds_nothing());
  again();
  EXPECT_TRUE(unreadable(family).empty());
  EXPECT_TRUE(scrub_finds_nothing());
}

TEST_P(OfFamily, AScrubTellsOfWhatAReaderMeetsWhileItIsUnderWay) {
  const Family family = GetParam();
  put(family);
  expect_ok(store().flush());
  const auto first = tables_of(*machine_.volume);
  put(family, 10'000, 10'000 + kRows);
  expect_ok(store().flush());
  std::vector<std::string> second = tables_of(*machine_.volume);
  std::erase_if(second, [&](const std::string& name) { return std::ranges::count(first, name) > 0; });
  ScrubPosition position{family == Family::names ? 1u : 2u, {}};
  ASSERT_TRUE(store().scrub(position, kNever));
  ASSERT_FALSE(position.range.done()) << "the second table is still to come";

  damage_table(second.front(), 0.5);
  meet_damage(family);
  ASSERT_FALSE(store().lost().empty());
  EXPECT_FALSE(std::ranges::count(tables_of(*machine_.volume), second.front())) << "it is merged into another before the scrub gets there";
  EXPECT_FALSE(scrub_finds_nothing(position));
}

TEST_P(OfFamily, WhatIsNewerThanADamagedBlockIsKept) {
  const Family family = GetParam();
  const std::string old = filled_table(family);
  put(family, 0, kRows, 3);
  expect_ok(store().flush());
  damage_table(old, 0.5);
  put(family, 1, kRows, 3);  // in memory

  meet_damage(family);
  const auto lost = unreadable(family);
  ASSERT_FALSE(lost.empty());
  for (std::uint64_t i = 0; i < kRows; ++i) EXPECT_TRUE(i % 3 == 2 || !lost.contains(number_key(i))) << i;
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
}

TEST_P(OfFamily, WhatMayBeOldIsNotGivenForWhatIsLost) {
  const Family family = GetParam();
  put(family);
  sink(family);
  const auto before = tables_of(*machine_.volume);
  put(family, 0, kRows, 2);
  expect_ok(store().flush());
  damage(before, 0.5);
  meet_damage(family);
  const auto lost = unreadable(family);  // no value of before is among what can be read
  ASSERT_FALSE(lost.empty());
  EXPECT_LT(lost.size(), kRows / 4);
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
}

TEST_P(OfFamily, WhatIsLostStaysSoAfterACrash) {
  const Family family = GetParam();
  put(family);
  sink(family);
  machine_.disk->watch_flushes();
  damage_table(only_table(family), 0.6);
  meet_damage(family);
  const auto lost = unreadable(family);
  std::mt19937_64 random(1);
  auto crashed = machine_.disk->crashed_copy(random);
  machine_.drop();
  machine_ = Machine::on(std::move(crashed), options_);
  settle();
  // Perhaps the damaged table is there again. It is not found a second time.
  EXPECT_EQ(unreadable(family), lost);
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
}

TEST_P(OfFamily, ASectorThatCannotBeReadCostsTheRowsInItOnly) {
  test::SteppedClock clock;
  const kv_test::PassingTime time(clock);
  options_.clock = &clock;
  again();
  const Family family = GetParam();
  const std::string table = filled_table(family);
  lose_sector(table);

  // It is met by a reader, by a compaction, and by whoever reads much at a time.
  meet_damage(family);
  const auto lost = unreadable(family);
  ASSERT_FALSE(lost.empty());
  EXPECT_LT(lost.size(), kRows / 8);
  put(family, 10'000, 10'100);
  expect_ok(store().sync());
  expect_ok(store().flush());
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
  EXPECT_FALSE(machine_.volume->exists(table));
  machine_.stop();
}

// As a cable that is loose for a moment.
TEST_P(OfFamily, WhatCannotBeReadForAWhileIsNotLost) {
  test::SteppedClock clock;
  options_.clock = &clock;
  auto time = std::make_optional<kv_test::PassingTime>(clock);
  again();
  const Family family = GetParam();
  const std::string table = filled_table(family);
  lose_sector(table);
  time.reset();
  EXPECT_FALSE(unreadable(family).empty());
  machine_.disk->lost_from = machine_.disk->lost_to = 0;
  time.emplace(clock);
  settle();
  EXPECT_TRUE(unreadable(family).empty());
  EXPECT_TRUE(store().lost().empty());
  expect_ok(store().sync());
  machine_.stop();
}

TEST_P(OfFamily, ADamagedIndexCostsTheRowsOfItsTableOnly) {
  const Family family = GetParam();
  const std::string table = filled_table(family);
  damage_at(table, kv::index_offset(footer_of(table)) + 3);
  meet_damage(family);
  EXPECT_EQ(unreadable(family).size(), kRows);

  put(family, 10'000, 10'100);
  expect_ok(store().flush());
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family).size(), kRows);
  EXPECT_FALSE(machine_.volume->exists(table));
  put(family);
  EXPECT_TRUE(unreadable(family).empty());
  again();
  EXPECT_TRUE(unreadable(family).empty());
}

// As where a server or a disk has lost what it said was durable.
TEST_P(OfFamily, ATableOfWhichNothingIsLeftCostsItsRowsAndStopsNoMerging) {
  const Family family = GetParam();
  const std::string table = filled_table(family);
  const std::uint64_t size = machine_.volume->size_of(table)->v;
  damage_at(table, size - 1);
  for (std::uint64_t at = 0, place = place_of(*machine_.disk, *machine_.volume, table); at < size; at += 100) machine_.disk->flip(place + at);
  put(family, 10'000, 10'100);
  expect_ok(store().flush());
  (void)store().compact(family, "", "");  // which may fail, but for the last time
  settle();
  EXPECT_EQ(unreadable(family).size(), kRows);
  EXPECT_TRUE(told("is damaged: what is here cannot be read"));
  put(family, 20'000, 20'100);
  expect_ok(store().flush());
  expect_ok(store().compact(family, "", ""));
  settle();
  EXPECT_FALSE(machine_.volume->exists(table));
  EXPECT_EQ(unreadable(family).size(), kRows);
  again();
  EXPECT_EQ(unreadable(family).size(), kRows);
  put(family);
  EXPECT_TRUE(unreadable(family).empty());
}

TEST_P(OfFamily, AFooterThatPointsElsewhereCostsTheRowsOfItsTableOnly) {
  const Family family = GetParam();
  const std::string table = filled_table(family);
  damage_at(table, machine_.volume->size_of(table)->v - kv::kFooterSize + 5);
  damage_table(table, 0.5);
  (void)store().compact(family, "", "");
  settle();
  const auto lost = unreadable(family);
  EXPECT_FALSE(lost.empty());
  expect_that_it_goes(family, table, lost);
}

// Its rows before the first damaged block can be read.
TEST_P(OfFamily, ATableWithoutItsFooterLosesWhatFollowsTheFirstDamage) {
  const Family family = GetParam();
  const std::string table = filled_table(family);
  damage_at(table, machine_.volume->size_of(table)->v - 1);
  damage_table(table, 0.5);
  damage_table(table, 0.7);
  (void)store().compact(family, "", "");
  settle();
  const auto lost = unreadable(family);
  EXPECT_GT(lost.size(), kRows / 4);
  EXPECT_LT(lost.size(), kRows * 3 / 4);
  expect_that_it_goes(family, table, lost);
}

TEST_P(OfFamily, DamageThatCostsNothingGoesWithItsTable) {
  const Family family = GetParam();
  const std::string table = filled_table(family);
  damage_at(table, machine_.volume->size_of(table)->v - kv::kFooterSize - 20);  // in the table of its parts
  EXPECT_FALSE(scrub_finds_nothing());
  settle();
  EXPECT_NE(only_table(family), table);
  EXPECT_TRUE(scrub_finds_nothing());
  EXPECT_TRUE(unreadable(family).empty());
  EXPECT_TRUE(store().lost().empty());
  EXPECT_TRUE(told("nothing is lost by it"));
}

TEST_P(OfFamily, ARepairGivesUpWhatIsLost) {
  const Family family = GetParam();
  damage_table(filled_table(family), 0.4);
  (void)store().compact(family, "", "");
  settle();
  const auto lost = unreadable(family);
  machine_.stop();
  machine_.volume = std::move(*Volume::open(machine_.disk->device()));
  const auto repaired = Store::repair(*machine_.volume, options_);
  ASSERT_TRUE(repaired) << repaired.error().message();
  EXPECT_FALSE(repaired->lost.empty());
  machine_.start(options_);
  EXPECT_TRUE(store().lost().empty());
  EXPECT_TRUE(scrub_finds_nothing());
  for (const auto& [key, value] : rows_[family]) {
    const auto got = store().get(family, key, Wait::yes);
    ASSERT_TRUE(got) << got.error().message();
    EXPECT_EQ(*got, lost.contains(key) ? std::nullopt : std::optional(value));
  }
}

TEST_P(OfFamily, APatchOfWhatIsLostIsLost) {
  const Family family = GetParam();
  const std::string old = filled_table(family);
  Batch batch;
  for (std::uint64_t i = 0; i < kRows; ++i) {  // some before it is found
    if (i % 2 == 0) batch.patch(family, number_key(i), 3, "x");
    if (i % 2 == 0) rows_[family][number_key(i)][3] = 'x';
  }
  expect_ok(store().commit(batch));
  expect_ok(store().flush());
  damage_table(old, 0.5);
  meet_damage(family);
  const auto lost = unreadable(family);
  EXPECT_TRUE(std::ranges::any_of(lost, [](const std::string& key) { return key.back() % 2 == 0; }));
  batch.clear();
  for (const std::string& key : lost) batch.patch(family, key, 0, "y");
  expect_ok(store().commit(batch));
  EXPECT_EQ(unreadable(family), lost);
  expect_ok(store().compact(family, "", ""));
  EXPECT_EQ(unreadable(family), lost);
}

INSTANTIATE_TEST_SUITE_P(Each, OfFamily, testing::Values(Family::names, Family::blocks),
                         [](const auto& one) { return one.param == Family::names ? "Names" : "Blocks"; });

}  // namespace
}  // namespace lsmfs::quarantine_test
