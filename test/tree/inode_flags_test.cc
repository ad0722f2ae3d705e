// What chattr(1)'s flags forbid.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>

#include "tree/harness.h"

namespace lsmfs::test::inode_flags_test {
namespace {

class InodeFlags : public testing::Test {
 protected:
  void SetUp() override {
    d = h.mkdir(kRootIno, "d");
    f = h.create(d, "f", "data");
    g = h.create(kRootIno, "g", "other");
  }
  int flag(Ino ino, std::uint32_t flags) { return set(ino, {.flags = flags}); }
  int set(Ino ino, const AttrChange& change) { return code(h.tree().setattr(ino, change, Wait::yes)); }
  int write(Ino ino, std::uint64_t offset) { return code(h.tree().write(ino, ByteOffset{offset}, as_bytes("x"), Wait::yes)); }
  int rename(Ino a, const char* from, Ino b, const char* to, unsigned flags = 0) {
    return code(h.tree().rename(a, from, b, to, flags, Wait::yes));
  }
  int make(Ino dir, const char* name) { return code(h.tree().make(dir, name, {.mode = S_IFREG | 0600}, Wait::yes)); }

  Harness h;
  Ino d, f, g;
};

TEST_F(InodeFlags, ArePartOfTheInodeAndComeBack) {
  EXPECT_EQ(flag(f, 0x8), EOPNOTSUPP);
  EXPECT_EQ(flag(f, FS_NODUMP_FL | FS_APPEND_FL), 0);
  EXPECT_EQ(h.attr(f).flags, FS_NODUMP_FL | FS_APPEND_FL);
  h.remount();
  EXPECT_EQ(h.attr(h.walk("d/f")).flags, FS_NODUMP_FL | FS_APPEND_FL);
}

TEST_F(InodeFlags, AnImmutableFileStaysAsItIs) {
  ASSERT_EQ(flag(f, FS_IMMUTABLE_FL), 0);
  EXPECT_EQ(write(f, 4), EPERM);
  EXPECT_EQ(set(f, {.size = 0}), EPERM);
  EXPECT_EQ(set(f, {.mode = 0600}), EPERM);
  EXPECT_EQ(set(f, {.mtime = Time::now(), .touches = true}), EPERM);
  EXPECT_EQ(code(h.tree().fallocate(f, FALLOC_FL_KEEP_SIZE, ByteOffset{0}, ByteCount{9}, Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().setxattr(f, "user.x", "1", 0, Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().removexattr(f, "user.x", Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().link(f, kRootIno, "l", Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().unlink(d, "f", Wait::yes)), EPERM);
  EXPECT_EQ(rename(d, "f", d, "h"), EPERM);
  EXPECT_EQ(rename(kRootIno, "g", d, "f"), EPERM) << "over it";
  EXPECT_EQ(rename(kRootIno, "g", d, "f", RENAME_EXCHANGE), EPERM);
  EXPECT_EQ(h.read(f), "data");
  ASSERT_EQ(flag(f, 0), 0);
  EXPECT_EQ(write(f, 4), 0);
  EXPECT_EQ(code(h.tree().unlink(d, "f", Wait::yes)), 0);
}

TEST_F(InodeFlags, AnAppendOnlyFileLosesItsCapabilitiesAndNothingElse) {
  ASSERT_EQ(code(h.tree().setxattr(f, "security.capability", "1", 0, Wait::yes)), 0);
  ASSERT_EQ(code(h.tree().setxattr(f, "user.x", "1", 0, Wait::yes)), 0);
  ASSERT_EQ(flag(f, FS_APPEND_FL), 0);
  EXPECT_EQ(code(h.tree().removexattr(f, "user.x", Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().removexattr(f, "security.capability", Wait::yes)), 0);
  ASSERT_EQ(flag(f, FS_IMMUTABLE_FL), 0);
  EXPECT_EQ(code(h.tree().removexattr(f, "security.capability", Wait::yes)), EPERM);
}

TEST_F(InodeFlags, AnImmutableDirectoryKeepsItsNames) {
  ASSERT_EQ(flag(d, FS_IMMUTABLE_FL), 0);
  EXPECT_EQ(make(d, "new"), EPERM);
  EXPECT_EQ(make(d, "f"), EEXIST);
  EXPECT_EQ(code(h.tree().make_unnamed(d, {.mode = S_IFREG | 0600}, Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().link(g, d, "l", Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().unlink(d, "f", Wait::yes)), EPERM);
  EXPECT_EQ(code(h.tree().unlink(d, "none", Wait::yes)), ENOENT);
  EXPECT_EQ(rename(d, "f", kRootIno, "f"), EPERM);
  EXPECT_EQ(rename(kRootIno, "g", d, "g"), EPERM);
  EXPECT_EQ(rename(kRootIno, "d", kRootIno, "e"), EPERM);
  EXPECT_EQ(code(h.tree().rmdir(kRootIno, "d", Wait::yes)), EPERM);
  EXPECT_EQ(write(f, 0), 0) << "what its files hold is theirs";
}

TEST_F(InodeFlags, WhatIsAppendOnlyOnlyGrows) {
  ASSERT_EQ(flag(f, FS_APPEND_FL), 0);
  EXPECT_EQ(write(f, 4), 0);
  EXPECT_EQ(write(f, 4), EPERM);
  EXPECT_EQ(write(f, 0), EPERM);
  EXPECT_EQ(write(f, 6), EPERM) << "past the end, which leaves a hole";
  EXPECT_EQ(set(f, {.size = 0}), EPERM);
  EXPECT_EQ(set(f, {.size = 100}), EPERM);
  EXPECT_EQ(set(f, {.uid = 5}), EPERM);
  EXPECT_EQ(set(f, {.mtime = Time{1, 0}}), EPERM);
  EXPECT_EQ(set(f, {.mtime = Time::now(), .touches = true}), 0);
  const auto fallocate = [&](int mode) { return code(h.tree().fallocate(f, mode, ByteOffset{0}, ByteCount{9}, Wait::yes)); };
  EXPECT_EQ(fallocate(FALLOC_FL_KEEP_SIZE), 0);
  EXPECT_EQ(fallocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE), EPERM);
  EXPECT_EQ(code(h.tree().unlink(d, "f", Wait::yes)), EPERM);
  EXPECT_EQ(h.read(f), "datax");

  ASSERT_EQ(flag(d, FS_APPEND_FL), 0);
  EXPECT_EQ(make(d, "new"), 0);
  EXPECT_EQ(code(h.tree().unlink(d, "new", Wait::yes)), EPERM);
  EXPECT_EQ(rename(d, "new", d, "newer"), EPERM);
  EXPECT_EQ(rename(kRootIno, "g", d, "g"), 0);
}

TEST_F(InodeFlags, ThatSayHowToTreatAFileAreInherited) {
  ASSERT_EQ(flag(d, FS_NODUMP_FL | FS_NOATIME_FL | FS_APPEND_FL), 0);
  EXPECT_EQ(h.attr(h.create(d, "new")).flags, FS_NODUMP_FL | FS_NOATIME_FL);
  EXPECT_EQ(h.attr(h.mkdir(d, "sub")).flags, FS_NODUMP_FL | FS_NOATIME_FL);
}

TEST_F(InodeFlags, AFileWithoutAccessTimeKeepsIt) {
  ASSERT_EQ(set(f, {.atime = Time{1, 0}}), 0);
  ASSERT_EQ(flag(f, FS_NOATIME_FL), 0);
  EXPECT_EQ(h.read(f), "data");
  EXPECT_EQ(h.attr(f).atime, (Time{1, 0}));
  ASSERT_EQ(flag(f, 0), 0);
  EXPECT_EQ(h.read(f), "data");
  EXPECT_GT(h.attr(f).atime, (Time{1, 0}));
}

}  // namespace
}  // namespace lsmfs::test::inode_flags_test
