#include <gtest/gtest.h>

#include <limits>

#include "clock.h"
#include "tree/harness.h"

namespace lsmfs::test::times_test {
namespace {

using namespace std::chrono_literals;

// Each change and each access of a test has a time of its own.
class Times : public testing::Test {
 protected:
  // The time of what comes next.
  Time later(Clock::Duration by = 1s) {
    clock_.advance(by);
    return Time::now(clock_);
  }
  TreeOptions options(TreeOptions with = {}) {
    with.sync_interval_ms = 0;
    with.clock = &clock_;
    return with;
  }

  SteppedClock clock_;
};

TEST_F(Times, KeepNanosecondsFarPastAndFuture) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino f = h.create(kRootIno, "f");
  const Time old{-1'000'000'000, 123'456'789}, future{15'032'385'535, 999'999'999};
  ASSERT_TRUE(h.tree().setattr(f, {.atime = old, .mtime = future}, Wait::yes));
  h.remount();
  const Attr a = h.attr(h.walk("f"));
  EXPECT_EQ(a.atime, old);
  EXPECT_EQ(a.mtime, future);
}

TEST_F(Times, ARelativeAccessTimeFollowsTheFirstReadAfterAChangeAndPersists) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino f = h.create(kRootIno, "f", "x");
  const Time once = later();
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, once);
  later();
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, once);
  h.remount();
  EXPECT_EQ(h.attr(h.walk("f")).atime, once);
}

TEST_F(Times, ARelativeAccessTimeIsADayOldAtMost) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino f = h.create(kRootIno, "f", "x");
  const Time once = later();
  h.read(f);
  later(24h - 1s);
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, once);
  const Time again = later();
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, again);
}

TEST_F(Times, AnAccessTimeOfTheFarPastIsOlderThanADay) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino f = h.create(kRootIno, "f", "x");
  const std::int64_t past = std::numeric_limits<std::int64_t>::min();
  ASSERT_TRUE(h.tree().setattr(f, {.atime = Time{past + 1, 0}, .mtime = Time{past, 0}, .ctime = Time{past, 0}}, Wait::yes));
  const Time now = later();
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, now);
}

TEST_F(Times, NoatimeLeavesAccessTimesAlone) {
  Harness h(ByteCount{kDeviceMin}, options({.atime = AtimePolicy::noatime}));
  const Ino f = h.create(kRootIno, "f", "x");
  const Attr before = h.attr(f);
  later();
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, before.atime);
}

TEST_F(Times, ReadsAndListingsThatAreNoAccessLeaveAccessTimesAlone) {
  Harness h(ByteCount{kDeviceMin}, options({.atime = AtimePolicy::strictatime}));
  const Ino f = h.create(kRootIno, "f", "x");
  const Time file = h.attr(f).atime, directory = h.attr(kRootIno).atime;
  std::byte to[1];
  const auto all = [](const DirEntry&) { return true; };
  const Time now = later();
  ASSERT_TRUE(h.tree().read(f, ByteOffset{0}, to, Wait::yes, AccessTime::stays));
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, AttrsOf::none, all, Wait::yes, AccessTime::stays));
  EXPECT_EQ(h.attr(f).atime, file);
  EXPECT_EQ(h.attr(kRootIno).atime, directory);
  ASSERT_TRUE(h.tree().read(f, ByteOffset{0}, to, Wait::yes));
  ASSERT_TRUE(h.tree().readdir(kRootIno, 0, AttrsOf::none, all, Wait::yes));
  EXPECT_EQ(h.attr(f).atime, now);
  EXPECT_EQ(h.attr(kRootIno).atime, now);
}

TEST_F(Times, AnAccessTimeIsNotLostWhenTheInodeIsForgotten) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino f = h.create(kRootIno, "f", "x");
  const Time read_at = later();
  h.read(f);
  h.tree().forget(f, 1);
  EXPECT_EQ(h.attr(h.walk("f")).atime, read_at);
}

TEST_F(Times, ListingADirectoryAndReadingALinkAreReadsToo) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino d = h.mkdir(kRootIno, "d"), l = h.make(kRootIno, "l", S_IFLNK | 0777, "target");
  h.create(d, "f");
  const Attr directory = h.attr(d);
  const Time listed = later();
  h.list(d);
  EXPECT_EQ(h.attr(d).ctime, directory.ctime);
  const Time followed = later();
  ASSERT_TRUE(h.tree().readlink(l, Wait::yes));
  later();
  h.list(d);
  ASSERT_TRUE(h.tree().readlink(l, Wait::yes));
  EXPECT_EQ(h.attr(d).atime, listed);
  EXPECT_EQ(h.attr(l).atime, followed);
  h.remount();
  EXPECT_EQ(h.attr(h.walk("d")).atime, listed);
  EXPECT_EQ(h.attr(h.walk("l")).atime, followed);
}

TEST_F(Times, NodiratimeIsAboutDirectoriesAlone) {
  Harness h(ByteCount{kDeviceMin}, options({.atime = AtimePolicy::strictatime, .directory_atime = false}));
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino f = h.create(d, "f", "x");
  const Attr directory = h.attr(d);
  const Time now = later();
  h.list(d);
  h.read(f);
  EXPECT_EQ(h.attr(d).atime, directory.atime);
  EXPECT_EQ(h.attr(f).atime, now);
}

// The kernel asks for a long listing in parts; that is one reading of it.
TEST_F(Times, AListingCountsOnceAtItsBeginning) {
  Harness h(ByteCount{kDeviceMin}, options({.atime = AtimePolicy::strictatime}));
  for (int i = 0; i < 20; ++i) h.create(kRootIno, std::to_string(i));
  std::uint64_t cookie = 0;
  const auto part = [&] {
    int given = 0;
    ASSERT_TRUE(h.tree().readdir(kRootIno, cookie, AttrsOf::none, [&](const DirEntry& e) {
      if (++given > 5) return false;
      cookie = e.next_cookie;
      return true;
    }, Wait::yes));
  };
  const Time begun = later();
  part();
  EXPECT_EQ(h.attr(kRootIno).atime, begun);
  later();
  part();
  EXPECT_EQ(h.attr(kRootIno).atime, begun);
}

TEST_F(Times, ChangesInADirectoryShowInItsTimes) {
  Harness h(ByteCount{kDeviceMin}, options());
  const Ino d = h.mkdir(kRootIno, "d");
  const Attr before = h.attr(d);
  const Time now = later();
  h.create(d, "f");
  const Attr after = h.attr(d);
  EXPECT_EQ(after.mtime, now);
  EXPECT_EQ(after.ctime, now);
  EXPECT_EQ(after.btime, before.btime);
}

}  // namespace
}  // namespace lsmfs::test::times_test
