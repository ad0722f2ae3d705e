#include "tree/keys.h"

#include <gtest/gtest.h>

namespace lsmfs {
namespace {

using namespace std::string_literals;

TEST(Keys, FollowTheGrammarOfTheFormat) {
  EXPECT_EQ(keys::child_home("", "usr", Ino{0x1234}), "usr\0\x02\x12\x34"s);
  EXPECT_EQ(keys::entry("usr\0\x01\x05"s, "bin"), "usr\0\x01\x05\0bin"s);
  EXPECT_EQ(keys::entry("", ""), keys::kRoot);
  EXPECT_EQ(keys::block("h", BlockIndex{258}), "h\0\0\0\0\0\0\x01\x02"s);
  EXPECT_EQ(keys::linked(Ino{1}), "/i\0\0\0\0\0\0\0\x01"s);
  EXPECT_EQ(keys::prefix_end("a\xff"s), "b");
}

TEST(Keys, EntriesOfADirectoryComeBeforeAllThatLiesDeeper) {
  const std::string dir = keys::child_home("", "d", Ino{2});
  const std::string deeper = keys::entry(keys::child_home(dir, "\x01", Ino{3}), "x");
  for (auto name : {"\x01"s, "a"s, std::string(255, '\xff')}) {
    const std::string key = keys::entry(dir, name);
    EXPECT_LT(key, deeper);
    EXPECT_LE(keys::entries_begin(dir), key);
    EXPECT_LT(key, keys::entries_end(dir));
    EXPECT_EQ(keys::entry_name(dir, key), name);
  }
  EXPECT_GE(deeper, keys::entries_end(dir));
}

TEST(Keys, BlocksOfFilesLieInTheOrderOfAWalk) {
  // a, a.c, ab and the contents of directory a: path order, component by component.
  const std::string in_dir = keys::child_home(keys::child_home("", "a", Ino{9}), "z", Ino{4});
  const std::string a_c = keys::child_home("", "a.c", Ino{3});
  const std::string ab = keys::child_home("", "ab", Ino{2});
  EXPECT_LT(keys::block(in_dir, BlockIndex{5}), keys::block(a_c, BlockIndex{0}));
  EXPECT_LT(keys::block(a_c, BlockIndex{255}), keys::block(a_c, BlockIndex{256}));
  EXPECT_LT(keys::blocks_end(a_c), keys::block(ab, BlockIndex{0}));
}

TEST(Keys, RowsOfNoDirectoryStayOutOfTheRootsEntries) {
  EXPECT_GT(std::string(keys::kState), keys::entries_end(""));
  EXPECT_LT(std::string(keys::kRoot), keys::entries_begin(""));
}

TEST(Keys, WhatIsTooDeepLiesByItself) {
  const std::string path(keys::kPathHomeMax - 10, 'p');
  EXPECT_FALSE(keys::too_deep(path, "1234567", Ino{5}));
  EXPECT_TRUE(keys::too_deep(path, "12345678", Ino{5}));
  EXPECT_TRUE(keys::too_deep(path, "1234567", Ino{256}));
  EXPECT_EQ(keys::far_home(Ino{0x1234}), "/\0\x02\x12\x34"s);
  const std::string first = keys::entries_begin(keys::far_home(Ino{0xffff})), end = keys::entries_end(keys::far_home(Ino{0xffff}));
  EXPECT_GT(first, keys::entries_end(keys::far_home(Ino{0xfffe})));
  for (const auto prefix : {keys::kLinkedPrefix, keys::kOrphanPrefix, keys::kState}) EXPECT_LT(end, prefix);
}

}  // namespace
}  // namespace lsmfs
