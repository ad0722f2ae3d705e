// Settings that change while the tree is in use.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "tree/harness.h"
#include "tree/pass.h"
#include "until.h"

namespace lsmfs::test {
namespace {

using namespace std::chrono_literals;

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
  SteppedClock clock;
  Harness h(ByteCount{kDeviceMin}, {.atime = AtimePolicy::strictatime, .sync_interval_ms = 0, .clock = &clock});
  const Ino f = h.create(kRootIno, "f", "x");
  h.read(f);
  ASSERT_TRUE(set_read_only(h, true));
  const Time then = h.attr(f).atime;
  clock.advance(1s);
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, then);
  ASSERT_TRUE(set_read_only(h, false));
  h.read(f);
  EXPECT_EQ(h.attr(f).atime, Time::now(clock));
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
  SteppedClock clock;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock});
  const Ino f = h.create(kRootIno, "f", "x");
  const auto counts_a_read = [&] {
    clock.advance(1s);
    h.read(f);
    return h.attr(f).atime == Time::now(clock);
  };
  ASSERT_TRUE(h.tree().reconfigure({.atime = AtimePolicy::noatime}));
  EXPECT_FALSE(counts_a_read());
  ASSERT_TRUE(h.tree().reconfigure({.atime = AtimePolicy::strictatime}));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(counts_a_read());
  ASSERT_TRUE(h.tree().reconfigure({}));
  EXPECT_TRUE(counts_a_read()) << "what is not set stays";
}

TEST(Reconfigure, ANewSyncIntervalHoldsForWhatChangesFromThenOn) {
  SteppedClock clock;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock});  // never by itself
  for (const bool in_time : {false, true}) {
    ASSERT_TRUE(h.tree().reconfigure({.sync_interval_ms = 100}));
    h.create(kRootIno, "f", "x");
    pass(clock, in_time ? 80ms : 79ms);
    h.crash();
    EXPECT_EQ(h.list(kRootIno).size(), in_time ? 1u : 0u);
  }
}

TEST(Reconfigure, OperationsOfOtherThreadsHappenWholeOrNotAtAll) {
  Harness h;
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  std::array<std::atomic<int>, 3> refused{};  // of each thread
  std::vector<std::thread> threads;
  for (std::size_t number = 0; number < refused.size(); ++number) {
    threads.emplace_back([&, number] {
      for (int i = 0; !stop; ++i) {
        const auto done = h.tree().make(kRootIno, std::to_string(number) + "-" + std::to_string(i), {.mode = S_IFREG}, Wait::yes);
        if (!done) {
          ASSERT_EQ(done.error().code, EROFS);
          ++refused[number];
          std::this_thread::yield();
          continue;
        }
        ++made;
        h.tree().forget(done->ino, 1);
      }
    });
  }
  const auto are_refused = [&](int more) {
    const std::array before{refused[0].load(), refused[1].load(), refused[2].load()};
    return until([&] {
      for (std::size_t i = 0; i < before.size(); ++i) {
        if (refused[i] < before[i] + more) return false;
      }
      return true;
    });
  };
  for (int i = 0; i < 20; ++i) {
    const int so_far = made;
    EXPECT_TRUE(until([&] { return made >= so_far + 10; }));
    EXPECT_TRUE(set_read_only(h, true));
    EXPECT_TRUE(are_refused(1));  // so each has counted what it made before
    const int before = made;
    EXPECT_TRUE(are_refused(3));
    EXPECT_EQ(made, before);
    EXPECT_TRUE(set_read_only(h, false));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(h.list(kRootIno).size(), static_cast<std::size_t>(made));
  h.remount();
  EXPECT_EQ(h.list(kRootIno).size(), static_cast<std::size_t>(made));
}

}  // namespace
}  // namespace lsmfs::test
