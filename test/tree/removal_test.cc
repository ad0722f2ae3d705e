#include <gtest/gtest.h>

#include "tree/harness.h"

namespace lsmfs::test {
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

TEST(Removal, AnEmptyOpenFileLeavesNoRowAtAll) {
  Harness h;
  const std::uint64_t before = h.rows(Family::names);
  h.create(kRootIno, "f");
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  EXPECT_EQ(h.rows(Family::names), before);
}

}  // namespace
}  // namespace lsmfs::test
