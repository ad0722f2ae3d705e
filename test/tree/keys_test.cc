#include "tree/keys.h"

#include <gtest/gtest.h>

#include "tree/damaged_tree.h"

namespace lsmfs::keys_test {
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
  EXPECT_LT(keys::block(a_c, BlockIndex{~std::uint64_t{0}}), keys::block(ab, BlockIndex{0}));
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

TEST(Keys, AreReadAsTheyAreWritten) {
  using Kind = keys::NamesKey::Kind;
  const std::string dir = keys::child_home(keys::child_home("", "a", Ino{2}), "\x01.c", Ino{0x1234567890});
  for (const std::string& home : {std::string(), dir, keys::child_home("", std::string(255, 'n'), Ino{255})}) {
    const std::string entry_key = keys::entry(home, "name"), xattr_key = keys::xattr(home, "user.a/b");
    const auto entry = keys::parse_names(entry_key);
    ASSERT_TRUE(entry && entry->kind == Kind::entry);
    EXPECT_EQ(entry->home, home);
    EXPECT_EQ(entry->name, "name");
    const auto xattr = keys::parse_names(xattr_key);
    ASSERT_TRUE(xattr && xattr->kind == Kind::xattr);
    EXPECT_EQ(xattr->home, home);
    EXPECT_EQ(xattr->name, "user.a/b");
    if (home.empty()) {
      EXPECT_EQ(entry->ino, kRootIno);
      continue;
    }
    for (const std::uint64_t index : {std::uint64_t{0}, std::uint64_t{0x6100010261000102}, ~std::uint64_t{0}}) {
      const std::string key = keys::block(home, BlockIndex{index});
      const auto block = keys::parse_block(key);
      ASSERT_TRUE(block);
      EXPECT_EQ(block->home, home);
      EXPECT_EQ(block->ino, entry->ino);
      EXPECT_EQ(block->index, BlockIndex{index});
    }
  }
  EXPECT_EQ(keys::parse_names(keys::kRoot)->kind, Kind::root);
  EXPECT_EQ(keys::parse_names(keys::entry(dir, "x"))->ino, Ino{0x1234567890});
  EXPECT_EQ(keys::path_of(dir), "a/\x01.c");
  EXPECT_EQ(keys::path_of(""), "");
}

TEST(Keys, OfHomesThatAreTooLongAreNotRead) {
  // A file of the longest name in a directory at the longest home.
  const std::string directory = test::longest_home(Ino{2});
  ASSERT_EQ(directory.size(), keys::kPathHomeMax);
  const std::string file = keys::child_home(directory, std::string(kNameMax, 'f'), Ino{kCountedMax.v - 1});
  EXPECT_EQ(file.size(), keys::kHomeMax);
  EXPECT_TRUE(keys::parse_names(keys::entry(directory, "x")));
  EXPECT_TRUE(keys::parse_names(keys::xattr(file, "user.x")));
  EXPECT_TRUE(keys::parse_block(keys::block(file, BlockIndex{0})));
  const std::string longer = keys::child_home(directory, "x", Ino{2});
  EXPECT_FALSE(keys::parse_names(keys::entry(longer, "x")));
  const std::string below = keys::child_home(file, "x", Ino{2});
  EXPECT_FALSE(keys::parse_names(keys::xattr(below, "user.x")));
  EXPECT_FALSE(keys::parse_block(keys::block(below, BlockIndex{0})));
}

TEST(Keys, OfWhatIsSharedReadBack) {
  const Ino base{0x1234567890}, user{7};
  EXPECT_EQ(keys::parse_node(keys::node(base)), base);
  const auto back = keys::parse_user(keys::user(base, user));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->base, base);
  EXPECT_EQ(back->user, user);
  EXPECT_EQ(keys::parse_node(keys::node(kRootIno)), kRootIno);
  EXPECT_TRUE(keys::parse_user(keys::user(kRootIno, user)));
  EXPECT_LE(keys::users_begin(base), keys::user(base, Ino{2}));
  EXPECT_LT(keys::user(base, Ino{kCountedMax.v - 1}), keys::users_end(base));
  for (const std::string& bad : {""s, "/n"s, "/r"s, keys::node(Ino{0}), keys::node(kCountedMax), keys::node(base) + 'x', keys::user(base, base),
                                 keys::user(base, kRootIno), keys::user(kCountedMax, user), keys::users_begin(base)}) {
    EXPECT_FALSE(keys::parse_node(bad)) << testing::PrintToString(bad);
    EXPECT_FALSE(keys::parse_user(bad)) << testing::PrintToString(bad);
  }
}

TEST(Keys, OfHomesKnowTheirNumbers) {
  const std::string dir = keys::child_home("", "d", Ino{2}), file = keys::child_home(dir, "f", Ino{300});
  EXPECT_EQ(keys::number_of(file), Ino{300});
  EXPECT_EQ(keys::number_of(""), kRootIno);
  const std::string root = keys::root_home(Ino{70'000});
  EXPECT_EQ(keys::number_of(root), Ino{70'000});
  EXPECT_EQ(keys::root_home(kRootIno), "");
  EXPECT_EQ(keys::path_of(root), "");
  EXPECT_EQ(keys::path_of(keys::child_home(keys::child_home(root, "d", Ino{2}), "f", Ino{3})), "d/f");
  EXPECT_EQ(keys::path_of(keys::child_home(keys::far_home(Ino{4}), "f", Ino{3})), ".../f");
  EXPECT_EQ(keys::path_of(keys::child_home(keys::far_home(kSnapshotsIno), "s", Ino{3})), ".snapshots/s");
  for (const std::string& home : {root, keys::far_home(Ino{4})}) {
    EXPECT_LT(home, keys::kNumberedBegin);
    EXPECT_TRUE(keys::parse_names(keys::entry(home, "f")));
    EXPECT_FALSE(keys::number_of(keys::child_home("", "d", Ino{2}) + home)) << "it is the first";
  }
  for (const std::string_view row : {keys::kState, keys::kSnapshots, keys::kLinkedPrefix, keys::kOrphanPrefix, keys::kBlobPrefix, keys::kBlobPatchPrefix, keys::kNodePrefix,
                                     keys::kUserPrefix, keys::kChanges}) {
    EXPECT_GT(row, keys::kNumberedBegin);
  }
  EXPECT_EQ(keys::with_number(file, Ino{70'000}), keys::child_home(dir, "f", Ino{70'000}));
  EXPECT_EQ(keys::with_number(keys::far_home(Ino{5}), Ino{6}), keys::far_home(Ino{6}));
  for (const std::string& bad : {"x"s, file + 'x', keys::entry(dir, "f")}) EXPECT_FALSE(keys::number_of(bad)) << testing::PrintToString(bad);
}

TEST(Keys, OfNoGrammarAreNotRead) {
  const std::string dir = keys::child_home("", "d", Ino{2});
  for (const std::string& bad : {""s, dir, dir + '\0', dir + "\0\0"s, dir + "\0a/b"s, dir + "\0a\0b"s, "d\0"s, "d\0\0\0x"s, "d\0\x09" + std::string(9, 'x') + "\0x"s,
                                 "d\0\x02\0\x01\0x"s, "a/b\0\x01\x02\0x"s, std::string(256, 'n') + "\0\x01\x02\0x"s, dir + '\0' + std::string(256, 'n'),
                                 "\0\0"s, keys::entry(keys::child_home(dir, "n", kCountedMax), "x"),
                                 keys::entry(keys::child_home(dir, "n", kRootIno), "x")}) {
    EXPECT_FALSE(keys::parse_names(bad)) << testing::PrintToString(bad);
  }
  for (const std::string& bad : {""s, std::string(8, '\0'), dir, dir + std::string(7, 'x'), dir + std::string(9, 'x'), "d\0\x02\0\x01" + std::string(8, 'x'),
                                 keys::block(keys::child_home(dir, "n", kCountedMax), BlockIndex{0})}) {
    EXPECT_FALSE(keys::parse_block(bad)) << testing::PrintToString(bad);
  }
}

}  // namespace
}  // namespace lsmfs::keys_test
