#include <gtest/gtest.h>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

TEST(Names, ARemountShowsEveryKindOfInodeAsItWas) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "file", "hello");
  h.make(d, "link", S_IFLNK | 0777, "../d/file");
  h.make(d, "fifo", S_IFIFO | 0600);
  ASSERT_TRUE(h.tree().make(d, "null", {.mode = S_IFCHR | 0666, .uid = 1, .gid = 2, .rdev = 0x103}, Wait::yes));
  h.remount();
  EXPECT_EQ(h.read_path("d/file"), "hello");
  EXPECT_EQ(*h.tree().readlink(h.walk("d/link"), Wait::yes), "../d/file");
  const Attr null = h.attr(h.walk("d/null"));
  EXPECT_EQ(null.mode, S_IFCHR | 0666u);
  EXPECT_EQ(null.rdev, 0x103u);
  EXPECT_EQ(null.uid, 1u);
  EXPECT_EQ(h.list(h.walk("d")), (std::vector<std::string>{"fifo", "file", "link", "null"}));
  const TreeCounts c = h.tree().counts();
  EXPECT_EQ(c.regular, 1u);
  EXPECT_EQ(c.directories, 2u);
  EXPECT_EQ(c.symlinks, 1u);
  EXPECT_EQ(c.others, 2u);
}

TEST(Names, InodeNumbersAreNeverUsedAgain) {
  Harness h;
  const Ino first = h.create(kRootIno, "a");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "a", Wait::yes));
  h.remount();
  EXPECT_GT(h.create(kRootIno, "a"), first);
}

TEST(Names, BadNamesAreRefused) {
  Harness h;
  auto make = [&](std::string_view name) {
    return code(h.tree().make(kRootIno, name, {.mode = S_IFREG | 0644}, Wait::yes));
  };
  EXPECT_EQ(make(std::string(256, 'x')), ENAMETOOLONG);
  EXPECT_EQ(make(std::string(255, 'x')), 0);
  EXPECT_EQ(make(""), EINVAL);
  EXPECT_EQ(make("a/b"), EINVAL);
  EXPECT_EQ(make(std::string_view("a\0b", 3)), EINVAL);
  EXPECT_EQ(code(h.tree().make(kRootIno, "l", {.mode = S_IFLNK | 0777, .symlink = std::string(4096, 'x')}, Wait::yes)),
            ENAMETOOLONG);
}

TEST(Names, ASetGroupIdDirectoryGivesItsGroupOn) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_TRUE(h.tree().setattr(d, {.mode = 02775, .gid = 55}, Wait::yes));
  const Attr file = *h.tree().make(d, "f", {.mode = S_IFREG | 0644, .gid = 1}, Wait::yes);
  const Attr dir = *h.tree().make(d, "s", {.mode = S_IFDIR | 0755, .gid = 1}, Wait::yes);
  EXPECT_EQ(file.gid, 55u);
  EXPECT_EQ(dir.gid, 55u);
  EXPECT_EQ(dir.mode, S_IFDIR | 02755u);
}

TEST(Names, HardLinksShareOneInodeUntilTheLastIsGone) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino f = h.create(kRootIno, "f", "shared");
  ASSERT_TRUE(h.tree().link(f, d, "g", Wait::yes));
  EXPECT_EQ(h.attr(f).nlink, 2u);
  h.remount();
  EXPECT_EQ(h.walk("f"), h.walk("d/g"));
  h.write(h.walk("f"), 0, "SHARED");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  h.remount();
  EXPECT_EQ(h.read_path("d/g"), "SHARED");
  EXPECT_EQ(h.attr(h.walk("d/g")).nlink, 1u);
  ASSERT_TRUE(h.tree().unlink(h.walk("d"), "g", Wait::yes));
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 0u);
}

TEST(Names, DirectoriesCountTheirSubdirectoriesInNlink) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.mkdir(d, "a");
  h.mkdir(d, "b");
  EXPECT_EQ(h.attr(d).nlink, 4u);
  ASSERT_TRUE(h.tree().rmdir(d, "a", Wait::yes));
  EXPECT_EQ(h.attr(d).nlink, 3u);
  EXPECT_EQ(code(h.tree().rmdir(kRootIno, "d", Wait::yes)), ENOTEMPTY);
}

TEST(Names, NothingCanBeMadeInARemovedDirectory) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_TRUE(h.tree().rmdir(kRootIno, "d", Wait::yes));
  EXPECT_EQ(code(h.tree().make(d, "x", {.mode = S_IFREG | 0644}, Wait::yes)), ENOENT);
  EXPECT_EQ(h.attr(d).nlink, 0u);
}

TEST(Names, ReadOnlyTreesRefuseEveryChange) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  (void)f;
  h.options.read_only = true;
  h.remount();
  EXPECT_EQ(code(h.tree().make(kRootIno, "g", {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().unlink(kRootIno, "f", Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().write(h.walk("f"), ByteOffset{0}, as_bytes("y"), Wait::yes)), EROFS);
  EXPECT_EQ(h.read_path("f"), "x");
}

}  // namespace
}  // namespace lsmfs::test
