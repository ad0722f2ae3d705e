#include "tree/row_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "seed.h"

namespace lsmfs::test::row_map_test {
namespace {

TEST(RowMap, AgreesWithASetOfBlocks) {
  constexpr std::uint64_t kBlocks = 60;
  std::mt19937_64 random(drawn_seed());
  RowMap::Memory memory;
  for (int round = 0; round < 50; ++round) {
    const std::uint64_t rows = random() % kBlocks;
    RowMap map(rows, memory);
    std::set<std::uint64_t> model;
    for (std::uint64_t i = 0; i < rows; ++i) model.insert(i);
    for (int step = 0; step < 100; ++step) {
      const std::uint64_t from = random() % kBlocks, to = from + random() % (kBlocks - from + 1);
      if (random() % 2 == 0) {
        map.add(from, to);
        for (std::uint64_t i = from; i < to; ++i) model.insert(i);
      } else {
        map.remove(from, to);
        model.erase(model.lower_bound(from), model.lower_bound(to));
      }
      const std::uint64_t low = random() % kBlocks, high = low + random() % (kBlocks - low + 1);
      const std::vector<std::uint64_t> within(model.lower_bound(low), model.lower_bound(high));
      ASSERT_EQ(map.count(low, high), within.size());
      ASSERT_EQ(map.first(low, high, kBlocks), within);
      ASSERT_EQ(map.first(low, high, 3), std::vector(within.begin(), within.begin() + std::min<std::ptrdiff_t>(3, std::ssize(within))));
      ASSERT_EQ(map.last(low, high), within.empty() ? std::nullopt : std::optional(within.back()));
      const auto next = model.lower_bound(low);
      ASSERT_EQ(map.next(low), next == model.end() ? std::nullopt : std::optional(*next));
      std::uint64_t hole = low;
      while (model.contains(hole)) ++hole;
      ASSERT_EQ(map.next_hole(low), hole);
    }
  }
  EXPECT_EQ(memory.runs, 0u);
}

TEST(RowMap, ForgetsWhenThereAreTooManyRunsInAll) {
  RowMap::Memory memory;
  RowMap one(10, memory), other(0, memory);
  for (std::uint64_t i = 0; i + 1 < RowMap::Memory::kMost; ++i) other.add(2 * i, 2 * i + 1);
  EXPECT_EQ(memory.runs, RowMap::Memory::kMost);
  EXPECT_TRUE(other.known());
  one.remove(5, 6);
  EXPECT_FALSE(one.known());
  EXPECT_EQ(memory.runs, RowMap::Memory::kMost - 1);
  one.add(0, 100);
  EXPECT_FALSE(one.known());
  other.remove(0, ~std::uint64_t{0});
  EXPECT_TRUE(other.known());
  EXPECT_EQ(memory.runs, 0u);
}

}  // namespace
}  // namespace lsmfs::test::row_map_test
