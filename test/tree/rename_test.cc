#include <gtest/gtest.h>
#include <stdio.h>

#include <fmt/format.h>

#include "tree/harness.h"

namespace lsmfs::test::rename_test {
namespace {

TEST(Rename, OfADirectoryMovesOneRecordAndKeepsAllBelow) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  for (int i = 0; i < 500; ++i) h.create(d, fmt::format("f{}", i), fmt::format("contents {}", i));
  const Ino e = h.mkdir(kRootIno, "e");
  const std::uint64_t before = h.rows(Family::names);
  ASSERT_TRUE(h.tree().rename(kRootIno, "d", e, "moved", 0, Wait::yes));
  EXPECT_EQ(h.rows(Family::names), before);
  EXPECT_EQ(h.walk("d"), Ino{});
  EXPECT_EQ(h.read_path("e/moved/f17"), "contents 17");
  h.remount();
  EXPECT_EQ(h.list(h.walk("e/moved")).size(), 500u);
  EXPECT_EQ(h.read_path("e/moved/f499"), "contents 499");
  // A new directory of the old name shares nothing with the moved one.
  const Ino again = h.mkdir(kRootIno, "d");
  EXPECT_TRUE(h.list(again).empty());
  h.create(again, "f17", "other");
  h.remount();
  EXPECT_EQ(h.read_path("e/moved/f17"), "contents 17");
  EXPECT_EQ(h.read_path("d/f17"), "other");
}

TEST(Rename, WhatIsMadeInADirectoryThatWasMovedEmptyLiesUnderItsNewHome) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "gone", "x");  // so that its home has been asked for
  ASSERT_TRUE(h.tree().unlink(d, "gone", Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, "d", kRootIno, "e", 0, Wait::yes));
  h.create(d, "made", "after");
  h.remount();
  EXPECT_EQ(h.read_path("e/made"), "after");
}

// 78 KiB of path: more than a home may have.
TEST(Rename, WorksAtAnyDepth) {
  Harness h;
  const std::string name(255, 'd');
  std::vector<Ino> chain{kRootIno};
  for (int i = 0; i < 300; ++i) chain.push_back(h.mkdir(chain.back(), name));
  const Ino deep = chain.back();
  const Ino sub = h.mkdir(deep, "sub");
  h.create(sub, "f", "in sub");
  const Ino empty = h.mkdir(kRootIno, "empty");
  const Ino shallow = h.mkdir(kRootIno, "shallow");
  h.create(shallow, "f", "in shallow");
  h.create(deep, "file", std::string(10'000, 'f'));
  ASSERT_TRUE(h.tree().rename(deep, "sub", deep, "renamed", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, "empty", deep, "empty", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, "shallow", deep, "shallow", 0, Wait::yes));
  h.create(empty, "f", "made in empty");
  const Ino linked = h.create(deep, "linked", "two names");
  ASSERT_TRUE(h.tree().link(linked, kRootIno, "name", Wait::yes));
  ASSERT_TRUE(h.tree().rename(deep, "file", deep, "moved", 0, Wait::yes));
  h.remount();
  Ino at = kRootIno;
  for (int i = 0; i < 150; ++i) at = h.tree().lookup(at, name, Wait::yes).value()->ino;
  ASSERT_TRUE(h.tree().rename(at, name, kRootIno, "half", 0, Wait::yes));
  h.remount();
  std::string path = "half";
  for (int i = 0; i < 149; ++i) path += "/" + name;
  EXPECT_EQ(h.list(h.walk(path)), (std::vector<std::string>{"empty", "linked", "moved", "renamed", "shallow"}));
  EXPECT_EQ(h.read_path(path + "/linked"), "two names");
  EXPECT_EQ(h.read_path("name"), "two names");
  EXPECT_EQ(h.read_path(path + "/renamed/f"), "in sub");
  EXPECT_EQ(h.read_path(path + "/empty/f"), "made in empty");
  EXPECT_EQ(h.read_path(path + "/shallow/f"), "in shallow");
  EXPECT_EQ(h.read_path(path + "/moved"), std::string(10'000, 'f'));
  // No two directories share a home: each has its own entries.
  for (const char* dir : {"/renamed", "/empty", "/shallow"}) EXPECT_EQ(h.list(h.walk(path + dir)).size(), 1u) << dir;
}

// Its blocks are read from the store first, and the commit that this takes lets go of what nobody uses.
TEST(Rename, OfAFileThatNobodyUsesAndNoCommitHasWritten) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", std::string(10'000, 'f'));
  const Ino g = h.create(kRootIno, "g", std::string(10'000, 'g'));
  h.tree().forget(f, 1);
  h.tree().forget(g, 1);
  ASSERT_TRUE(h.tree().rename(kRootIno, "f", kRootIno, "g", RENAME_EXCHANGE, Wait::yes));
  EXPECT_EQ(h.read_path("f"), std::string(10'000, 'g'));
  EXPECT_EQ(h.read_path("g"), std::string(10'000, 'f'));
  h.remount();
  EXPECT_EQ(h.read_path("f"), std::string(10'000, 'g'));
}

TEST(Rename, LeavesAWhiteoutWhereItIsAskedTo) {
  Harness h;
  h.create(kRootIno, "f", "data");
  const Ino d = h.mkdir(kRootIno, "d");
  EXPECT_EQ(code(h.tree().rename(kRootIno, "f", d, "g", RENAME_WHITEOUT | RENAME_EXCHANGE, Wait::yes)), EINVAL);
  ASSERT_TRUE(h.tree().rename(kRootIno, "f", d, "g", RENAME_WHITEOUT, Wait::yes, {.uid = 7, .gid = 8}));
  ASSERT_TRUE(h.tree().rename(kRootIno, "d", kRootIno, "e", RENAME_WHITEOUT, Wait::yes));
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(h.read_path("e/g"), "data");
    for (const char* name : {"f", "d"}) {
      const Attr whiteout = h.attr(h.walk(name));
      EXPECT_EQ(whiteout.mode, static_cast<std::uint32_t>(S_IFCHR)) << name;
      EXPECT_EQ(whiteout.rdev, 0u);
      EXPECT_EQ(whiteout.nlink, 1u);
    }
    EXPECT_EQ(h.attr(h.walk("f")).uid, 7u);
    EXPECT_EQ(h.attr(h.walk("f")).gid, 8u);
    EXPECT_EQ(h.attr(h.walk("d")).uid, 0u);
    EXPECT_EQ(h.list(kRootIno).size(), 3u);
    EXPECT_EQ(h.tree().counts().others, 2u);
    h.remount();
  }
}

TEST(Rename, ASmallFileTakesItsBlocksAlongAndALargeOneLeavesThem) {
  Harness h;
  h.create(kRootIno, "small", std::string(100'000, 's'));
  h.create(kRootIno, "large", std::string(1'000'000, 'l'));
  ASSERT_TRUE(h.tree().rename(kRootIno, "small", kRootIno, "z-small", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, "large", kRootIno, "z-large", 0, Wait::yes));
  EXPECT_EQ(h.rows(Family::blocks, "small"), 0u);
  EXPECT_EQ(h.rows(Family::blocks, "z-small"), 25u);
  EXPECT_EQ(h.rows(Family::blocks, "large"), 245u);
  h.remount();
  EXPECT_EQ(h.read_path("z-small"), std::string(100'000, 's'));
  EXPECT_EQ(h.read_path("z-large"), std::string(1'000'000, 'l'));
}

TEST(Rename, OverAFileErasesItOnceItIsForgotten) {
  Harness h;
  const Ino old = h.create(kRootIno, "b", "old");
  h.create(kRootIno, "a", "new");
  ASSERT_TRUE(h.tree().rename(kRootIno, "a", kRootIno, "b", 0, Wait::yes));
  EXPECT_EQ(h.read(old), "old");  // still open somewhere
  EXPECT_EQ(h.read_path("b"), "new");
  h.tree().forget(old, 1);
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 1u);
}

TEST(Rename, ExchangeSwapsAFileAndADirectory) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "inside", "1");
  h.create(kRootIno, "f", "2");
  ASSERT_TRUE(h.tree().rename(kRootIno, "d", kRootIno, "f", RENAME_EXCHANGE, Wait::yes));
  h.remount();
  EXPECT_EQ(h.read_path("f/inside"), "1");
  EXPECT_EQ(h.read_path("d"), "2");
}

TEST(Rename, ADirectoryIntoItselfIsRefused) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino e = h.mkdir(d, "e");
  EXPECT_EQ(code(h.tree().rename(kRootIno, "d", e, "x", 0, Wait::yes)), EINVAL);
  EXPECT_EQ(code(h.tree().rename(kRootIno, "d", d, "x", 0, Wait::yes)), EINVAL);
}

TEST(Rename, BackAndForthEndsWhereItBegan) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "f", std::string(1'000'000, 'x'));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(h.tree().rename(kRootIno, "d", kRootIno, "e", 0, Wait::yes));
    ASSERT_TRUE(h.tree().rename(d, "f", kRootIno, "g", 0, Wait::yes));
    ASSERT_TRUE(h.tree().rename(kRootIno, "e", kRootIno, "d", 0, Wait::yes));
    ASSERT_TRUE(h.tree().rename(kRootIno, "g", d, "f", 0, Wait::yes));
  }
  h.remount();
  EXPECT_EQ(h.read_path("d/f"), std::string(1'000'000, 'x'));
  EXPECT_EQ(h.rows(Family::blocks), 245u);
}

}  // namespace
}  // namespace lsmfs::test::rename_test
