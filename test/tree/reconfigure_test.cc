// Settings that change while the tree is in use.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

Result<void> set_read_only(Harness& h, bool read_only) { return h.tree().reconfigure({.read_only = read_only}); }

TEST(Reconfigure, ReadOnlyRefusesEveryChangeAndHasAllOfThoseBefore) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "kept");
  const Ino d = h.mkdir(kRootIno, "d");
  ASSERT_TRUE(set_read_only(h, true));
  EXPECT_TRUE(h.tree().read_only());
  EXPECT_EQ(code(h.tree().make(d, "g", {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().make_unnamed(d, {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().write(f, ByteOffset{0}, as_bytes("x"), Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().setattr(f, {.mode = 0600}, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().link(f, d, "g", Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().rename(kRootIno, "f", d, "f", 0, Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().unlink(kRootIno, "f", Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().rmdir(kRootIno, "d", Wait::yes)), EROFS);
  EXPECT_EQ(code(h.tree().setxattr(f, "user.a", "b", 0, Wait::yes)), EROFS);
  EXPECT_TRUE(h.tree().sync());
  EXPECT_EQ(h.read(f), "kept");
  h.crash();
  EXPECT_EQ(h.list(kRootIno), (std::vector<std::string>{"d", "f"}));
  EXPECT_EQ(h.read_path("f"), "kept");
}

TEST(Reconfigure, ReadOnlyKeepsAccessTimes) {
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::strictatime, .sync_interval_ms = 0});
  const Ino f = h.create(kRootIno, "f", "x");
  h.read(f);
  ASSERT_TRUE(set_read_only(h, true));
  const Time then = h.attr(f).atime;
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, then);
  ASSERT_TRUE(set_read_only(h, false));
  h.read(f);
  EXPECT_GT(h.attr(f).atime, then);
}

TEST(Reconfigure, WritableAgainTheTreeGoesOn) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "one");
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(set_read_only(h, true));
    ASSERT_TRUE(set_read_only(h, false));
    EXPECT_FALSE(h.tree().read_only());
    h.write(f, h.attr(f).size, " more");
    h.create(kRootIno, "g" + std::to_string(i), "new");
  }
  h.remount();
  EXPECT_EQ(h.read_path("f"), "one more more more");
  EXPECT_EQ(h.list(kRootIno), (std::vector<std::string>{"f", "g0", "g1", "g2"}));
}

TEST(Reconfigure, WhatLosesItsLastUseWhileReadOnlyIsErasedLater) {
  for (const bool writable_again : {true, false}) {
    Harness h;
    const std::uint64_t blocks = h.rows(Family::blocks), names = h.rows(Family::names);
    const Ino f = h.create(kRootIno, "f", std::string(50'000, 'x'));
    ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
    ASSERT_TRUE(set_read_only(h, true));
    h.tree().forget(f, 1);
    EXPECT_EQ(h.rows(Family::blocks), blocks + 13);
    if (writable_again) {
      ASSERT_TRUE(set_read_only(h, false));
      EXPECT_EQ(code(h.tree().getattr(f, Wait::yes)), ESTALE);
    } else {
      h.remount();
    }
    EXPECT_EQ(h.rows(Family::blocks), blocks);
    EXPECT_EQ(h.rows(Family::names), names);
  }
}

TEST(Reconfigure, WhatWasOpenedReadOnlyStaysSo) {
  Harness h;
  h.create(kRootIno, "f", "x");
  h.options.read_only = true;
  h.remount();
  EXPECT_TRUE(set_read_only(h, true));
  EXPECT_EQ(code(set_read_only(h, false)), EROFS);
  EXPECT_TRUE(h.tree().read_only());
  EXPECT_EQ(code(h.tree().unlink(kRootIno, "f", Wait::yes)), EROFS);
  EXPECT_TRUE(h.tree().reconfigure({.atime = AtimePolicy::noatime}));
}

TEST(Reconfigure, AccessTimesFollowTheNewPolicyAtOnce) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "x");
  ASSERT_TRUE(h.tree().reconfigure({.atime = AtimePolicy::noatime}));
  const Time made = h.attr(f).atime;
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, made);
  ASSERT_TRUE(h.tree().reconfigure({.atime = AtimePolicy::strictatime}));
  h.read(f);
  const Time once = h.attr(f).atime;
  EXPECT_GT(once, made);
  h.read(f);
  EXPECT_GT(h.attr(f).atime, once);
  ASSERT_TRUE(h.tree().reconfigure({}));
  const Time twice = h.attr(f).atime;
  h.read(f);
  EXPECT_GT(h.attr(f).atime, twice) << "what is not set stays";
}

TEST(Reconfigure, ANewSyncIntervalHoldsForWhatChangesFromThenOn) {
  Harness h;  // never by itself
  ASSERT_TRUE(h.tree().reconfigure({.sync_interval_ms = 100}));
  h.create(kRootIno, "f", "x");
  ::usleep(3'000'000);
  h.crash();
  EXPECT_EQ(h.list(kRootIno), (std::vector<std::string>{"f"}));
}

TEST(Reconfigure, OperationsOfOtherThreadsHappenWholeOrNotAtAll) {
  Harness h;
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; !stop; ++i) {
        const auto done = h.tree().make(kRootIno, std::to_string(number) + "-" + std::to_string(i), {.mode = S_IFREG}, Wait::yes);
        if (!done) {
          ASSERT_EQ(done.error().code, EROFS);
          std::this_thread::yield();
          continue;
        }
        ++made;
        h.tree().forget(done->ino, 1);
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    ::usleep(2'000);
    ASSERT_TRUE(set_read_only(h, true));
    const int before = made;
    ::usleep(2'000);
    EXPECT_LE(made - before, 3) << "those whose number had not been counted yet";
    ASSERT_TRUE(set_read_only(h, false));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(h.list(kRootIno).size(), static_cast<std::size_t>(made));
  h.remount();
  EXPECT_EQ(h.list(kRootIno).size(), static_cast<std::size_t>(made));
}

}  // namespace
}  // namespace lsmfs::test
