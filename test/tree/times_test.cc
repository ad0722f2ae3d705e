#include <gtest/gtest.h>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

TEST(Times, KeepNanosecondsFarPastAndFuture) {
  Harness h;
  const Ino f = h.create(kRootIno, "f");
  const Time old{-1'000'000'000, 123'456'789}, future{15'032'385'535, 999'999'999};
  ASSERT_TRUE(h.tree().setattr(f, {.atime = old, .mtime = future}, Wait::yes));
  h.remount();
  const Attr a = h.attr(h.walk("f"));
  EXPECT_EQ(a.atime, old);
  EXPECT_EQ(a.mtime, future);
}

TEST(Times, ARelativeAccessTimeFollowsTheFirstReadAfterAChangeAndPersists) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  const Attr before = h.attr(f);
  h.read(f);
  const Attr once = h.attr(f);
  EXPECT_GT(once.atime, before.atime);
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, once.atime);
  h.remount();
  EXPECT_EQ(h.attr(h.walk("f")).atime, once.atime);
}

TEST(Times, NoatimeLeavesAccessTimesAlone) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::noatime, .sync_interval_ms = 0});
  const Ino f = h.create(kRootIno, "f", "x");
  const Attr before = h.attr(f);
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, before.atime);
}

TEST(Times, AnAccessTimeIsNotLostWhenTheInodeIsForgotten) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  h.read(f);
  const Time read_at = h.attr(f).atime;
  h.tree().forget(f, 1);
  EXPECT_EQ(h.attr(h.walk("f")).atime, read_at);
}

TEST(Times, ChangesInADirectoryShowInItsTimes) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  const Attr before = h.attr(d);
  h.create(d, "f");
  const Attr after = h.attr(d);
  EXPECT_GT(after.mtime, before.mtime);
  EXPECT_EQ(after.mtime, after.ctime);
  EXPECT_EQ(after.btime, before.btime);
}

}  // namespace
}  // namespace lsmfs::test
