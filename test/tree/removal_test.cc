#include <gtest/gtest.h>

#include "tree/harness.h"

namespace lsmfs::test::removal_test {
namespace {

TEST(Removal, AnOpenFileStaysUsableUntilItIsForgotten) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "still here");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  EXPECT_EQ(h.walk("f"), Ino{});
  EXPECT_EQ(h.attr(f).nlink, 0u);
  h.write(f, 0, "STILL");
  EXPECT_EQ(h.read(f), "STILL here");
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  h.tree().forget(f, 1);
  EXPECT_EQ(h.rows(Family::blocks), 0u);
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
}

TEST(Removal, OrphansOfACrashAreErasedByTheNextMount) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", std::string(50'000, 'x'));
  const Ino late = h.create(kRootIno, "late");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  ASSERT_TRUE(h.tree().unlink(kRootIno, "late", Wait::yes));
  h.write(late, 0, "written after it was removed");
  (void)f;
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::names, "/o"), 2u);
  h.crash();
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
  EXPECT_EQ(h.rows(Family::blocks), 0u);
}

TEST(Removal, AnOpenFileIsErasedByUnmounting) {
  Harness h;
  h.create(kRootIno, "f", std::string(50'000, 'x'));
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 0u);
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
}

TEST(Removal, OfALargeFileLeavesNoRow) {
  Harness h;
  const Ino f = h.create(kRootIno, "f");
  h.write(f, 0, std::string(8 * MiB, 'x'));
  const Ino keep = h.create(kRootIno, "g", "keep");
  (void)keep;
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  h.tree().forget(f, 1);
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(h.read_path("g"), "keep");
}

// The record of a file is put with its only name, whether or not anybody has looked that up. Until then somebody has to know the
// directory, and no longer.
TEST(Removal, OfADirectoryIsWholeThoughAFileThatWasInItIsInUse) {
  Harness h;
  const auto name_left_in = [&](Ino dir, std::string_view name) {
    const Ino f = h.create(dir, name, "of two names");
    EXPECT_TRUE(h.tree().link(f, kRootIno, "second", Wait::yes));
    EXPECT_TRUE(h.tree().unlink(kRootIno, "second", Wait::yes));
    EXPECT_TRUE(h.tree().sync());
    return f;
  };
  const auto is_gone = [&](Ino dir, std::string_view name) {
    EXPECT_TRUE(h.tree().rmdir(kRootIno, name, Wait::yes));
    h.tree().forget(dir, 1);
    return code(h.tree().getattr(dir, Wait::yes)) == ESTALE;
  };
  const Ino a = h.mkdir(kRootIno, "a"), b = h.mkdir(kRootIno, "b"), c = h.mkdir(kRootIno, "c");
  const Ino moved = name_left_in(a, "f"), linked = name_left_in(b, "f"), removed = name_left_in(c, "f");
  ASSERT_TRUE(h.tree().rename(a, "f", kRootIno, "moved", 0, Wait::yes));
  EXPECT_TRUE(is_gone(a, "a"));
  ASSERT_TRUE(h.tree().link(linked, kRootIno, "linked", Wait::yes));
  ASSERT_TRUE(h.tree().unlink(b, "f", Wait::yes));
  EXPECT_TRUE(is_gone(b, "b"));
  ASSERT_TRUE(h.tree().unlink(c, "f", Wait::yes));
  EXPECT_TRUE(is_gone(c, "c"));
  for (const Ino f : {moved, linked, removed}) EXPECT_EQ(h.read(f), "of two names");
}

TEST(Removal, AnEmptyOpenFileLeavesNoRowAtAll) {
  Harness h;
  const std::uint64_t before = h.rows(Family::names);
  h.create(kRootIno, "f");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  EXPECT_EQ(h.rows(Family::names), before);
}

TEST(Unnamed, GetsANameOrGoesAway) {
  Harness h;
  const std::uint64_t names = h.rows(Family::names), blocks = h.rows(Family::blocks);
  const auto make = [&](const std::string& data) {
    const Ino ino = h.tree().make_unnamed(kRootIno, {.mode = S_IFREG | 0600}, Wait::yes)->ino;
    if (!data.empty()) h.write(ino, 0, data);
    return ino;
  };
  const Ino kept = make("kept"), empty = make(""), dropped = make("dropped");
  const Ino crashed = make(std::string(50'000, 'c'));
  EXPECT_EQ(h.attr(kept).nlink, 0u);
  EXPECT_TRUE(h.list(kRootIno).empty());
  ASSERT_TRUE(h.tree().sync());  // they have rows now
  for (const auto& [ino, name] : {std::pair{kept, "kept"}, std::pair{empty, "empty"}}) {
    ASSERT_TRUE(h.tree().link(ino, kRootIno, name, Wait::yes));
    EXPECT_EQ(h.attr(ino).nlink, 1u);
  }
  ASSERT_TRUE(h.tree().link(kept, kRootIno, "second", Wait::yes));
  ASSERT_TRUE(h.tree().link(empty, kRootIno, "third", Wait::yes));
  h.write(empty, 0, "not any more");
  h.tree().forget(dropped, 1);
  EXPECT_EQ(code(h.tree().link(dropped, kRootIno, "late", Wait::yes)), ESTALE);
  EXPECT_EQ(h.read(crashed), std::string(50'000, 'c'));
  ASSERT_TRUE(h.tree().sync());
  h.crash();
  EXPECT_EQ(h.list(kRootIno), (std::vector<std::string>{"empty", "kept", "second", "third"}));
  EXPECT_EQ(h.read_path("kept"), "kept");
  EXPECT_EQ(h.read_path("second"), "kept");
  EXPECT_EQ(h.read_path("third"), "not any more");
  EXPECT_EQ(h.tree().counts().regular, 2u);
  for (const char* name : {"kept", "second", "empty", "third"}) {
    h.tree().forget(h.walk(name), 100);
    ASSERT_TRUE(h.tree().unlink(kRootIno, name, Wait::yes));
  }
  h.remount();
  EXPECT_EQ(h.rows(Family::names), names);
  EXPECT_EQ(h.rows(Family::blocks), blocks);
}

// A name that was taken away cannot come back.
TEST(Unnamed, OnlyWhatNeverHadAName) {
  Harness h;
  const Ino f = h.create(kRootIno, "f");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  EXPECT_EQ(code(h.tree().link(f, kRootIno, "g", Wait::yes)), ENOENT);
}

}  // namespace
}  // namespace lsmfs::test::removal_test
