#include "kv/widest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kv/sizing.h"
#include "lsmfs/base.h"

namespace lsmfs::kv {
namespace {

struct Table {
  std::string smallest, largest;
  std::uint64_t granules = 1;
};

rocksdb::ColumnFamilyMetaData facts(const std::vector<std::vector<Table>>& levels) {
  rocksdb::ColumnFamilyMetaData all;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    std::vector<rocksdb::SstFileMetaData> files;
    for (const Table& table : levels[i]) {
      rocksdb::SstFileMetaData file;
      file.smallestkey = table.smallest;
      file.largestkey = table.largest;
      file.size = table.granules * kTableGranule;
      files.push_back(file);
    }
    all.levels.emplace_back(static_cast<int>(i), 0, std::move(files));
  }
  return all;
}

std::uint64_t granules(const std::vector<std::vector<Table>>& levels) { return widest_merge(facts(levels)) / kTableGranule; }

TEST(Widest, IsNothingWhereTablesMove) {
  EXPECT_EQ(granules({}), 0u);
  EXPECT_EQ(granules({{}, {{"a", "c"}}}), 0u);
  EXPECT_EQ(granules({{}, {{"a", "c"}}, {}}), 0u);
  EXPECT_EQ(granules({{}, {{"a", "c"}, {"e", "f"}}, {{"d", "d"}, {"g", "h"}}}), 0u);
}

TEST(Widest, ATableBringsWhatItOverlaps) {
  EXPECT_EQ(granules({{}, {{"c", "f"}}, {{"a", "b"}, {"b1", "c"}, {"d", "e"}, {"f", "g"}, {"h", "i"}}}), 4u);
  EXPECT_EQ(granules({{}, {{"c", "c"}}, {{"a", "c"}, {"d", "e"}}}), 2u) << "ends count";
}

TEST(Widest, ATableBelowBringsAllAboveIt) {
  EXPECT_EQ(granules({{}, {{"a", "b"}, {"c", "d"}, {"e", "f"}, {"g", "h"}, {"x", "z"}}, {{"b", "g", 5}}}), 9u);
}

TEST(Widest, IsThatOfTheWidestOfAllLevelsButTheFirst) {
  const std::vector<Table> narrow = {{"a", "a"}}, wide = {{"a", "z", 3}};
  EXPECT_EQ(granules({wide, narrow, {}, {}}), 0u);
  EXPECT_EQ(granules({{}, narrow, narrow, {{"a", "b", 4}}}), 5u);
  EXPECT_EQ(granules({{}, wide, {{"b", "c", 7}}, {{"y", "z"}}}), 10u);
}

TEST(Widest, CountsWholeGranules) {
  auto some = facts({{}, {{"a", "b"}}, {{"a", "b"}}});
  some.levels[1].files[0].size = 1;
  EXPECT_EQ(widest_merge(some), 2 * kTableGranule);
}

}  // namespace
}  // namespace lsmfs::kv
