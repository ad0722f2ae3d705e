#include <gtest/gtest.h>

#include <limits>

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

TEST(Times, AnAccessTimeOfTheFarPastIsOlderThanADay) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  const std::int64_t past = std::numeric_limits<std::int64_t>::min();
  ASSERT_TRUE(h.tree().setattr(f, {.atime = Time{past + 1, 0}, .mtime = Time{past, 0}, .ctime = Time{past, 0}}, Wait::yes));
  h.read(f);
  EXPECT_GT(h.attr(f).atime.seconds, 0);
}

TEST(Times, NoatimeLeavesAccessTimesAlone) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::noatime, .sync_interval_ms = 0});
  const Ino f = h.create(kRootIno, "f", "x");
  const Attr before = h.attr(f);
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, before.atime);
}

TEST(Times, ReadsAndListingsThatAreNoAccessLeaveAccessTimesAlone) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::strictatime, .sync_interval_ms = 0});
  const Ino f = h.create(kRootIno, "f", "x");
  const Time file = h.attr(f).atime, directory = h.attr(kRootIno).atime;
  std::byte to[1];
  const auto all = [](const DirEntry&) { return true; };
  ASSERT_TRUE(h.tree().read(f, ByteOffset{0}, to, Wait::yes, AccessTime::stays));
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, false, all, Wait::yes, AccessTime::stays));
  EXPECT_EQ(h.attr(f).atime, file);
  EXPECT_EQ(h.attr(kRootIno).atime, directory);
  ASSERT_TRUE(h.tree().read(f, ByteOffset{0}, to, Wait::yes));
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, false, all, Wait::yes));
  EXPECT_GT(h.attr(f).atime, file);
  EXPECT_GT(h.attr(kRootIno).atime, directory);
}

TEST(Times, AnAccessTimeIsNotLostWhenTheInodeIsForgotten) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  h.read(f);
  const Time read_at = h.attr(f).atime;
  h.tree().forget(f, 1);
  EXPECT_EQ(h.attr(h.walk("f")).atime, read_at);
}

TEST(Times, ListingADirectoryAndReadingALinkAreReadsToo) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d"), l = h.make(kRootIno, "l", S_IFLNK | 0777, "target");
  h.create(d, "f");
  const Attr directory = h.attr(d), link = h.attr(l);
  h.list(d);
  ASSERT_TRUE(h.tree().readlink(l, Wait::yes));
  const Attr listed = h.attr(d), followed = h.attr(l);
  EXPECT_GT(listed.atime, directory.atime);
  EXPECT_EQ(listed.ctime, directory.ctime);
  EXPECT_GT(followed.atime, link.atime);
  h.list(d);
  ASSERT_TRUE(h.tree().readlink(l, Wait::yes));
  EXPECT_EQ(h.attr(d).atime, listed.atime);
  EXPECT_EQ(h.attr(l).atime, followed.atime);
  h.remount();
  EXPECT_EQ(h.attr(h.walk("d")).atime, listed.atime);
  EXPECT_EQ(h.attr(h.walk("l")).atime, followed.atime);
}

TEST(Times, NodiratimeIsAboutDirectoriesAlone) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::strictatime, .directory_atime = false, .sync_interval_ms = 0});
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino f = h.create(d, "f", "x");
  const Attr directory = h.attr(d), file = h.attr(f);
  h.list(d);
  h.read(f);
  EXPECT_EQ(h.attr(d).atime, directory.atime);
  EXPECT_GT(h.attr(f).atime, file.atime);
}

// The kernel asks for a long listing in parts; that is one reading of it.
TEST(Times, AListingCountsOnceAtItsBeginning) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::strictatime, .sync_interval_ms = 0});
  for (int i = 0; i < 20; ++i) h.create(kRootIno, std::to_string(i));
  std::uint64_t cookie = 0;
  const auto part = [&] {
    int given = 0;
    ASSERT_TRUE(h.tree().readdir(kRootIno, cookie, false, [&](const DirEntry& e) {
      if (++given > 5) return false;
      cookie = e.next_cookie;
      return true;
    }, Wait::yes));
  };
  part();
  const Time begun = h.attr(kRootIno).atime;
  part();
  EXPECT_EQ(h.attr(kRootIno).atime, begun);
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
