#include "kv/live.h"

#include <gtest/gtest.h>

#include "kv/support.h"

namespace lsmfs::live_test {
namespace {

using kv::Live;
using kv_test::number_key;

constexpr std::uint64_t kRow = 4096, kRows = 1000;  // of a table
constexpr double kNear = 0.02;

// The table of rows [from, to), in which each takes so many bytes.
Live::Table table(std::uint64_t number, std::uint64_t from, std::uint64_t to, bool bottom, std::uint64_t row = kRow) {
  return {.number = number, .first = number_key(from), .last = number_key(to - 1), .bytes = (to - from) * row, .rows = to - from, .bottom = bottom};
}

class LiveRows : public testing::Test {
 protected:
  // Three tables lie at the bottom; the rows of the last take an eighth of the others'.
  std::vector<Live::Table> three() {
    return {table(1, 0, kRows, true), table(2, kRows, 2 * kRows, true), table(3, 2 * kRows, 3 * kRows, true, kRow / 8)};
  }
  static constexpr std::uint64_t kThree = 2 * kRows * kRow + kRows * kRow / 8;
  void commit(std::uint64_t sequence, std::uint64_t rows, const std::vector<kv::ErasedRange>& ranges = {}, const kv::ErasedRows& erased = {}) {
    live_.committed(sequence, 4160 * kRows, rows, ranges, erased);
  }
  static kv::ErasedRange range(std::uint64_t from, std::uint64_t to) { return {Family::blocks, number_key(from), number_key(to), to - from}; }
  void expect_bytes(std::uint64_t bytes) { EXPECT_NEAR(static_cast<double>(live_.bytes()), static_cast<double>(bytes), kNear * static_cast<double>(kThree)); }

  Live live_;
};

TEST_F(LiveRows, AreAllAsLongAsNobodySaysHowMany) {
  auto tables = three();
  tables.push_back(table(4, 0, 500, false));
  live_.measured(tables, 10);
  EXPECT_EQ(live_.bytes(), kThree + 500 * kRow);
  EXPECT_TRUE(live_.worst());
  live_.measured(three(), 10);
  EXPECT_FALSE(live_.worst()) << "nothing lies over others";
}

TEST_F(LiveRows, AreFewerThanTablesHoldWhereSomeWereReplaced) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  expect_bytes(kThree);
  EXPECT_EQ(live_.obsolete_bytes(), 0u);
  auto tables = three();
  tables.push_back(table(4, kRows + 100, kRows + 600, false));
  live_.measured(tables, 20);
  expect_bytes(kThree);
  EXPECT_NEAR(static_cast<double>(live_.obsolete_bytes()), 500 * kRow, kRow);
  EXPECT_EQ(live_.worst(), std::pair(number_key(kRows), number_key(2 * kRows - 1)));
  // The same rows again and again lie in tables of the levels above.
  for (std::uint64_t number = 5; number < 15; ++number) tables.push_back(table(number, kRows + 100, kRows + 600, false));
  live_.measured(tables, 30);
  expect_bytes(kThree);
}

TEST_F(LiveRows, ThatAreErasedNoLongerCountAtOnceAndForWhatTheyTook) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  commit(11, 2 * kRows, {range(2 * kRows, 3 * kRows)});
  expect_bytes(2 * kRows * kRow);
  kv::ErasedRows singly;
  singly.add(number_key(0), number_key(399), 400);
  commit(12, 2 * kRows - 400, {}, singly);
  expect_bytes(2 * kRows * kRow - 400 * kRow);
  // Flushed, tombstones take nothing. And what is merged gives the same.
  auto tables = three();
  tables.push_back({.number = 4, .first = number_key(0), .last = number_key(3 * kRows)});
  live_.measured(tables, 12);
  expect_bytes(2 * kRows * kRow - 400 * kRow);
  EXPECT_EQ(live_.worst(), std::pair(number_key(2 * kRows), number_key(3 * kRows - 1)));
  live_.measured({table(7, 400, kRows, true), table(2, kRows, 2 * kRows, true)}, 12);
  expect_bytes(2 * kRows * kRow - 400 * kRow);
  EXPECT_EQ(live_.obsolete_bytes(), 0u);
}

TEST_F(LiveRows, ThatAreErasedNoLongerCountAtOnceWhereverTheyLie) {
  live_.begin(4 * kRows);
  auto tables = three();
  tables.push_back(table(4, 3 * kRows, 4 * kRows, false));
  live_.measured(tables, 10);
  expect_bytes(kThree + kRows * kRow);
  commit(11, 3 * kRows, {range(3 * kRows, 4 * kRows)});
  expect_bytes(kThree);
  commit(12, 0, {range(0, 3 * kRows)});
  expect_bytes(0);
}

TEST_F(LiveRows, AreCountedWhenATableOfTheLastLevelHoldsNoneOfThem) {
  live_.begin(kRows);
  live_.measured({table(1, 0, kRows, true), {.number = 2, .first = number_key(kRows), .last = number_key(2 * kRows), .bytes = 100, .bottom = true}}, 10);
  commit(11, kRows, {range(kRows, kRows + 500)});
  expect_bytes(kRows * kRow);
}

TEST_F(LiveRows, StayErasedInTablesThatTheirsWereMergedIntoBeforeTheTombstonesCame) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  commit(11, 2 * kRows, {range(0, kRows)});
  const std::vector<Live::Table> tombstones = {{.number = 4, .first = number_key(0), .last = number_key(kRows)}};
  const auto measure = [&](std::vector<Live::Table> bottom) {
    bottom.push_back(tombstones[0]);
    live_.measured(bottom, 11);
  };
  measure({table(5, 0, 400, true), table(6, 400, kRows + 200, true), table(7, kRows + 200, 2 * kRows, true), table(3, 2 * kRows, 3 * kRows, true, kRow / 8)});
  expect_bytes(kThree - kRows * kRow);
  // With them half of it goes, and then the rest.
  measure({table(6, 400, kRows + 200, true), table(7, kRows + 200, 2 * kRows, true), table(3, 2 * kRows, 3 * kRows, true, kRow / 8)});
  expect_bytes(kThree - kRows * kRow);
  measure({table(8, kRows, 2 * kRows, true), table(3, 2 * kRows, 3 * kRows, true, kRow / 8)});
  expect_bytes(kThree - kRows * kRow);
  EXPECT_LT(live_.obsolete_bytes(), 10 * kRow);
}

TEST_F(LiveRows, ThatWereErasedBeforeTheMountLieUnderTombstones) {
  auto tables = three();
  tables.push_back({.number = 4, .first = number_key(0), .last = number_key(kRows - 1), .bottom = false, .erases = true});
  live_.measured(tables, 10);
  live_.begin(2 * kRows);
  expect_bytes(kThree - kRows * kRow);
  EXPECT_EQ(live_.worst(), std::pair(number_key(0), number_key(kRows - 1)));
}

TEST_F(LiveRows, ThatAreNewCountWholeUntilTheyAreFlushed) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  commit(20, 3 * kRows + 500);
  commit(30, 3 * kRows + 900);
  expect_bytes(kThree + 900 * kRow);
  auto tables = three();
  tables.push_back(table(4, 3 * kRows, 3 * kRows + 500, false, kRow / 4));
  live_.measured(tables, 20);
  expect_bytes(kThree + 500 * kRow / 4 + 400 * kRow);
  EXPECT_EQ(live_.obsolete_bytes(), 0u);
  // Those that are erased again before that have never been there.
  commit(40, 3 * kRows + 500, {range(3 * kRows + 500, 3 * kRows + 900)});
  live_.measured(tables, 20);
  expect_bytes(kThree + 500 * kRow / 4);
}

TEST_F(LiveRows, AreToldFromWhatIsInTablesAfterAnyNumberOfCommits) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  for (std::uint64_t i = 1; i <= 100'000; ++i) commit(10 + i, 3 * kRows + i / 100);
  auto tables = three();
  tables.push_back(table(4, 3 * kRows, 3 * kRows + 500, false));
  live_.measured(tables, 10 + 50'000);
  expect_bytes(kThree + 1000 * kRow);
  EXPECT_LT(live_.obsolete_bytes(), 10 * kRow);
}

TEST_F(LiveRows, AreWorstWhereMostIsObsoleteOfWhatLiesUnderOtherTables) {
  std::vector<Live::Table> tables;
  for (std::uint64_t i = 0; i < 10; ++i) tables.push_back(table(i, i * kRows, (i + 1) * kRows, true));
  live_.begin(10 * kRows);
  live_.measured(tables, 10);
  commit(11, 8 * kRows + 600, {range(4 * kRows, 5 * kRows), range(5 * kRows, 5 * kRows + 300), range(8 * kRows, 8 * kRows + 100)});
  tables.push_back({.number = 10, .first = number_key(4 * kRows), .last = number_key(9 * kRows)});
  live_.measured(tables, 11);
  EXPECT_EQ(live_.worst(), std::pair(number_key(4 * kRows), number_key(5 * kRows - 1)));
  tables.back().first = number_key(5 * kRows);
  live_.measured(tables, 11);
  EXPECT_EQ(live_.worst(), std::pair(number_key(5 * kRows), number_key(6 * kRows - 1)));
  tables.back() = {.number = 10, .first = number_key(20 * kRows), .last = number_key(21 * kRows)};
  live_.measured(tables, 11);
  EXPECT_EQ(live_.worst(), std::pair(number_key(20 * kRows), number_key(21 * kRows))) << "else what is obsolete is among the others";
}

TEST_F(LiveRows, ThatComeInBulkAreInTablesOrOnTheWay) {
  live_.begin(3 * kRows);
  live_.measured(three(), 10);
  live_.committed(20, 1000, 4 * kRows, {}, {}, kRows);
  EXPECT_EQ(live_.rows(), 4 * kRows);
  expect_bytes(kThree + kRows * 4160);
  auto tables = three();
  tables.push_back(table(4, 3 * kRows, 4 * kRows, true));
  live_.measured(tables, 10);
  live_.bulk_taken_in(kRows);
  live_.measured(tables, 10);
  expect_bytes(kThree + kRows * kRow);
  EXPECT_EQ(live_.obsolete_bytes(), 0u);
  // A flush of what came beside them changes nothing of that, nor does a commit.
  live_.measured(tables, 20);
  expect_bytes(kThree + kRows * kRow);
  commit(30, 5 * kRows);
  expect_bytes(kThree + kRows * kRow + kRows * 4160);
  // Erased, they count no more.
  live_.committed(40, 100, 4 * kRows, {range(3 * kRows, 4 * kRows)}, {});
  expect_bytes(kThree + kRows * 4160);
  EXPECT_EQ(live_.rows(), 4 * kRows);
}

}  // namespace
}  // namespace lsmfs::live_test
