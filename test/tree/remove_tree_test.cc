// A directory goes with all that lies below it: at once for who looks for it, and in steps for what takes space.
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <stdio.h>

#include <algorithm>
#include <mutex>

#include "clock.h"
#include "noise.h"
#include "tree/cold_store.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::remove_tree_test {
namespace {

class RemoveTree : public testing::Test {
 protected:
  int remove(Ino dir, Ino parent = kRootIno, Wait wait = Wait::yes) { return code(h.tree().remove_tree(dir, parent, wait)); }
  // Of the root, which nobody holds on to.
  int remove(const std::string& name) {
    const Ino dir = h.walk(name);
    const int result = remove(dir);
    forget(dir);
    return result;
  }
  // Steps until nothing is left to be swept; gives how many.
  int sweep() {
    for (int steps = 0;; ++steps) {
      const auto more = h.tree().sweep();
      EXPECT_TRUE(more) << more.error().message();
      if (!more || !*more) return steps;
    }
  }
  std::uint64_t files() {
    const TreeCounts c = h.tree().counts();
    return c.regular + c.directories + c.symlinks + c.others;
  }
  void forget(Ino ino) { h.tree().forget(ino, 100); }
  int make(Ino dir, const char* name) { return code(h.tree().make(dir, name, {.mode = S_IFREG | 0600}, Wait::yes)); }
  int lookup(Ino dir, const char* name) { return code(h.tree().lookup(dir, name, Wait::yes)); }

  // d with files of all kinds, e/f/g/deep, and empty; beside it "kept".
  void populate() {
    kept = h.create(kRootIno, "kept", "kept");
    d = h.mkdir(kRootIno, "d");
    e = h.mkdir(d, "e");
    f = h.mkdir(e, "f");
    g = h.mkdir(f, "g");
    h.mkdir(d, "empty");
    file = h.create(d, "file", std::string(20'000, 'x'));
    deep = h.create(g, "deep", "deep");
    h.make(e, "link", S_IFLNK | 0777, "target");
    h.make(e, "pipe", S_IFIFO | 0600);
    ASSERT_TRUE(h.tree().setxattr(file, "user.large", std::string(5000, 'v'), 0, Wait::yes));
    ASSERT_TRUE(h.tree().setxattr(f, "user.large", std::string(5000, 'v'), 0, Wait::yes));
  }

  Harness h;
  Ino kept, d, e, f, g, file, deep;
};

TEST_F(RemoveTree, IsGoneAtOnceAndOfNoUseBelow) {
  populate();
  const Attr root = h.attr(kRootIno);
  ASSERT_TRUE(h.tree().sync());
  const auto name = h.tree().remove_tree(d, kRootIno, Wait::no);
  ASSERT_TRUE(name);
  EXPECT_EQ(*name, "d");
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{"kept"});
  EXPECT_EQ(h.walk("d"), Ino{});
  EXPECT_EQ(h.attr(kRootIno).nlink, root.nlink - 1);
  EXPECT_GT(h.attr(kRootIno).mtime, root.mtime);
  EXPECT_EQ(h.attr(d).nlink, 0u);
  EXPECT_EQ(h.attr(d).mtime, h.attr(kRootIno).mtime) << "listings of it are old";
  for (const Ino dir : {d, e, f, g}) {
    EXPECT_EQ(lookup(dir, "deep"), ENOENT);
    EXPECT_EQ(make(dir, "new"), ENOENT);
    EXPECT_EQ(code(h.tree().make_unnamed(dir, {.mode = S_IFREG | 0600}, Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().link(kept, dir, "new", Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().unlink(dir, "deep", Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().rmdir(dir, "g", Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().rename(kRootIno, "kept", dir, "kept", 0, Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().rename(dir, "deep", kRootIno, "deep", 0, Wait::yes)), ENOENT);
    EXPECT_EQ(code(h.tree().remove_tree(dir, kRootIno, Wait::yes)), ENOENT);
    EXPECT_TRUE(h.list(dir).empty());
  }
  EXPECT_EQ(code(h.tree().link(deep, kRootIno, "again", Wait::yes)), ENOENT);
  EXPECT_EQ(h.read(deep), "deep");
  h.write(deep, 0, "DEEP");
  EXPECT_EQ(h.check(), "");
  // Another one of its name is another one.
  const Ino again = h.mkdir(kRootIno, "d");
  EXPECT_EQ(make(again, "new"), 0);
  sweep();
  EXPECT_EQ(h.list(again), std::vector<std::string>{"new"});
  EXPECT_EQ(h.read(deep), "DEEP");
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, ASweepLeavesNothing) {
  const std::uint64_t names = h.rows(Family::names), before = files();
  populate();
  for (int i = 0; i < 700; ++i) h.create(f, std::to_string(i), std::string(static_cast<std::size_t>(i), 'x'));
  Ino at = g;
  for (int i = 0; i < 300; ++i) at = h.mkdir(at, "down");
  h.write(h.create(at, "large"), 0, std::string(6 * MiB, 'x'));
  h.remount();
  ASSERT_EQ(remove("d"), 0);
  EXPECT_EQ(h.check(), "");
  EXPECT_GT(sweep(), 10);
  h.tree().forget(h.walk("kept"), 100);
  EXPECT_EQ(h.rows(Family::names), names + 1);
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(files(), before + 1);
  EXPECT_EQ(h.tree().activity().removed_trees, 0u);
  EXPECT_EQ(h.check(), "");
  h.remount();
  EXPECT_EQ(h.read_path("kept"), "kept");
}

TEST_F(RemoveTree, WhatWasMadeJustBeforeGoesToo) {
  populate();
  ASSERT_EQ(remove(d), 0);
  for (const Ino ino : {d, e, f, g, file, deep}) forget(ino);
  sweep();
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, OfAnEmptyDirectoryIsItsRemoval) {
  const std::uint64_t names = h.rows(Family::names);
  const Ino dir = h.mkdir(kRootIno, "empty");
  ASSERT_EQ(remove(dir), 0);
  EXPECT_EQ(h.attr(dir).nlink, 0u);
  EXPECT_EQ(sweep(), 0);
  forget(dir);
  EXPECT_EQ(h.rows(Family::names), names);
}

TEST_F(RemoveTree, OpenFilesStayUntilTheyAreForgotten) {
  populate();
  ASSERT_TRUE(h.tree().sync());
  ASSERT_EQ(remove(d), 0);
  h.write(file, 0, "before");
  sweep();
  EXPECT_EQ(h.attr(file).nlink, 0u);
  EXPECT_EQ(h.attr(deep).nlink, 0u);
  EXPECT_EQ(h.attr(g).nlink, 0u);
  h.write(file, 6, " and after");
  EXPECT_EQ(h.read(file, 0, 16), "before and after");
  EXPECT_TRUE(h.tree().setattr(g, {.mode = 0700}, Wait::yes));
  EXPECT_TRUE(h.tree().setxattr(g, "user.x", "1", 0, Wait::yes));
  EXPECT_EQ(h.check(), "");
  EXPECT_EQ(h.rows(Family::blocks), 7u);
  for (const Ino ino : {d, e, f, g, file, deep}) forget(ino);
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
}

TEST_F(RemoveTree, NamesElsewhereKeepAFile) {
  populate();
  ASSERT_TRUE(h.tree().link(file, kRootIno, "outside", Wait::yes));
  ASSERT_TRUE(h.tree().link(file, e, "inside", Wait::yes));
  ASSERT_TRUE(h.tree().link(kept, g, "kept", Wait::yes));
  ASSERT_TRUE(h.tree().link(deep, e, "twice inside", Wait::yes));
  h.remount();
  ASSERT_EQ(remove("d"), 0);
  EXPECT_EQ(h.attr(h.walk("kept")).nlink, 2u);
  sweep();
  EXPECT_EQ(h.attr(h.walk("outside")).nlink, 1u);
  EXPECT_EQ(h.attr(h.walk("kept")).nlink, 1u);
  EXPECT_EQ(h.check(), "");
  h.remount();
  EXPECT_EQ(h.read_path("outside"), std::string(20'000, 'x'));
  EXPECT_EQ(h.read_path("kept"), "kept");
  EXPECT_EQ(files(), 3u);
}

// Names by which it was known may have been in the tree: whoever has it by another one may give it more.
TEST_F(RemoveTree, AFileWithANameElsewhereGetsNewNames) {
  populate();
  ASSERT_TRUE(h.tree().link(file, kRootIno, "outside", Wait::yes));
  ASSERT_EQ(remove(d), 0);
  EXPECT_TRUE(h.tree().link(file, kRootIno, "more", Wait::yes));
  sweep();
  EXPECT_EQ(h.attr(file).nlink, 2u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, PartsThatWereRenamedAreFreed) {
  populate();
  h.create(kRootIno, "big", std::string(400'000, 'b'));
  ASSERT_TRUE(h.tree().rename(kRootIno, "big", g, "big", 0, Wait::yes));
  const Ino other = h.mkdir(kRootIno, "other");
  h.create(other, "x", "x");
  ASSERT_TRUE(h.tree().rename(kRootIno, "other", f, "other", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(d, "e", kRootIno, "out", 0, Wait::yes));
  h.remount();
  ASSERT_EQ(remove("d"), 0);
  sweep();
  EXPECT_EQ(h.list(kRootIno), (std::vector<std::string>{"kept", "out"}));
  EXPECT_EQ(h.read_path("out/f/g/big"), std::string(400'000, 'b'));
  ASSERT_TRUE(h.tree().rename(kRootIno, "out", kRootIno, "d", 0, Wait::yes));
  h.remount();
  ASSERT_EQ(remove("d"), 0);
  sweep();
  forget(h.walk("kept"));
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, ACrashLeavesAllOrNothingOfItToFind) {
  populate();
  ASSERT_TRUE(h.tree().sync());
  ASSERT_EQ(remove(d), 0);
  h.crash();  // it was not synced
  EXPECT_EQ(h.read_path("d/e/f/g/deep"), "deep");
  ASSERT_EQ(remove("d"), 0);
  ASSERT_TRUE(h.tree().sync());
  for (bool more = true; more;) {
    h.crash();
    EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{"kept"});
    EXPECT_EQ(h.check(), "");
    more = *h.tree().sweep();
    EXPECT_EQ(h.check(), "");  // which syncs
  }
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.rows(Family::blocks), 1u);
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
}

TEST_F(RemoveTree, UnmountingDoesNotWaitForIt) {
  populate();
  ASSERT_EQ(remove(d), 0);
  h.unmount();
  h.options.read_only = true;
  h.mount();
  EXPECT_EQ(h.list(kRootIno), std::vector<std::string>{"kept"});
  EXPECT_EQ(code(h.tree().sweep()), EROFS);
  h.unmount();
  h.options.read_only = false;
  h.mount();
  EXPECT_EQ(h.tree().activity().removed_trees, 1u);
  const auto report = check_tree(h.store());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->clean()) << report->problems.front();
  EXPECT_EQ(report->removed_trees, 1u);
  EXPECT_EQ(report->unused, 0u);
  EXPECT_EQ(h.repair(), "") << "nothing is wrong with it";
  sweep();
  EXPECT_EQ(files(), 2u);
}

TEST_F(RemoveTree, IsRefused) {
  populate();
  EXPECT_EQ(remove(file, d), ENOTDIR);
  EXPECT_EQ(remove(kRootIno), EBUSY);
  EXPECT_EQ(remove(e), ESTALE);
  EXPECT_EQ(remove(Ino{12345}), ESTALE);
  ASSERT_TRUE(h.tree().reconfigure({.read_only = true}));
  EXPECT_EQ(remove(d), EROFS);
  ASSERT_TRUE(h.tree().reconfigure({.read_only = false}));
  EXPECT_EQ(remove(e, d), 0);
  EXPECT_EQ(remove(d), 0);
}

TEST_F(RemoveTree, IsRefusedWhereSomethingIsFixed) {
  populate();
  const auto flag = [&](Ino ino, std::uint32_t flags) { ASSERT_TRUE(h.tree().setattr(ino, {.flags = flags}, Wait::yes)); };
  EXPECT_EQ(h.tree().counts().fixed, 0u);
  for (const std::uint32_t flags : {FS_IMMUTABLE_FL, FS_APPEND_FL}) {
    for (const Ino ino : {kRootIno, d, e, g, file, deep}) {
      flag(ino, flags);
      EXPECT_EQ(h.tree().counts().fixed, 1u);
      EXPECT_EQ(remove(d), EPERM) << ino.v;
      EXPECT_EQ(h.read_path("d/e/f/g/deep"), "deep");
      flag(ino, FS_NODUMP_FL);
    }
  }
  EXPECT_EQ(h.tree().counts().fixed, 0u);
  // By any of its names, and once it is in a table alone.
  ASSERT_TRUE(h.tree().link(kept, g, "kept", Wait::yes));
  flag(kept, FS_IMMUTABLE_FL);
  EXPECT_EQ(remove(d), EPERM);
  h.remount();
  EXPECT_EQ(remove("d"), EPERM);
  EXPECT_EQ(h.check(), "");
  h.tree().setattr(h.walk("kept"), {.flags = 0}, Wait::yes).value();
  ASSERT_TRUE(h.tree().unlink(h.walk("d/e/f/g"), "kept", Wait::yes));
  // What is elsewhere is no reason, but then it has to be looked.
  h.tree().setattr(h.walk("kept"), {.flags = FS_IMMUTABLE_FL}, Wait::yes).value();
  EXPECT_EQ(remove(h.walk("d"), kRootIno, Wait::no), EAGAIN);
  EXPECT_EQ(remove("d"), 0);
  // An open file gets a flag in vain.
  h.remount();
  sweep();
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.tree().counts().fixed, 1u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, AFlagThatAnOpenFileGetsAfterwardsKeepsNothing) {
  populate();
  ASSERT_EQ(remove(d), 0);
  ASSERT_TRUE(h.tree().setattr(file, {.flags = FS_IMMUTABLE_FL}, Wait::yes));
  ASSERT_TRUE(h.tree().setattr(g, {.flags = FS_IMMUTABLE_FL}, Wait::yes));
  EXPECT_EQ(h.tree().counts().fixed, 2u);
  sweep();
  EXPECT_EQ(h.tree().counts().fixed, 0u);
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(RemoveTree, WhoHoldsOnToAnInodeIsToldOfItsEntry) {
  populate();
  std::vector<std::string> told;
  h.tree().on_swept([&](std::vector<SweptEntry> entries) {
    for (const auto& [dir, name, ino] : entries) told.push_back(fmt::format("{}/{} {}", dir.v, name, ino.v));
  });
  for (const Ino ino : {e, deep}) forget(ino);
  for (const char* name : {"link", "pipe"}) (void)h.tree().unlink(e, name, Wait::yes);
  ASSERT_EQ(remove(d), 0);
  sweep();
  const auto of = [](Ino dir, const char* name, Ino ino) { return fmt::format("{}/{} {}", dir.v, name, ino.v); };
  EXPECT_NE(std::ranges::find(told, of(d, "file", file)), told.end());
  EXPECT_NE(std::ranges::find(told, of(e, "f", f)), told.end());
  EXPECT_NE(std::ranges::find(told, of(f, "g", g)), told.end());
  EXPECT_EQ(std::ranges::find(told, of(d, "e", e)), told.end());
  EXPECT_EQ(std::ranges::find(told, of(g, "deep", deep)), told.end());
  h.tree().on_swept({});
}

TEST_F(RemoveTree, ADamagedEntryIsLeftToARepairAndAllElseGoes) {
  std::mutex mutex;
  std::string said;
  h.options.notice = [&](std::string_view line) {
    const std::lock_guard lock(mutex);
    said += std::string(line) + "\n";
  };
  populate();
  h.unmount();
  h.mount();
  const std::string home = keys::child_home("", "d", d);
  Batch batch;
  batch.put(Family::names, keys::entry(keys::child_home(home, "e", e), "link"), "damaged");
  ASSERT_TRUE(h.store().commit(batch));
  ASSERT_EQ(remove("d"), 0);
  sweep();
  {
    const std::lock_guard lock(mutex);
    EXPECT_NE(said.find("takes space until fsck -y"), said.npos) << said;
  }
  EXPECT_EQ(files(), 2u + 1u) << "that one";
  ASSERT_TRUE(h.tree().sync());
  EXPECT_NE(h.repair(), "");
  sweep();
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(h.rows(Family::names, "/o"), 0u);
  EXPECT_EQ(h.check(), "");
}

TEST(RemoveTreeByItself, ASweepComesAMomentLaterAlsoAfterAMount) {
  SteppedClock clock;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .sweeps = true, .clock = &clock});
  const auto fill = [&](const char* name) {
    const Ino dir = h.mkdir(kRootIno, name);
    for (int i = 0; i < 500; ++i) h.create(dir, std::to_string(i), "data");
    return dir;
  };
  const auto removed = [&] { return h.tree().activity().removed_trees; };
  const auto sweep = [&] {
    EXPECT_TRUE(until([&] {
      clock.advance(std::chrono::milliseconds(100));
      return removed() == 0;
    }));
  };
  ASSERT_TRUE(h.tree().remove_tree(fill("a"), kRootIno, Wait::yes));
  EXPECT_EQ(removed(), 1u);
  sweep();
  ASSERT_TRUE(h.tree().remove_tree(fill("b"), kRootIno, Wait::yes));
  h.remount();
  EXPECT_EQ(h.tree().counts().regular, 500u);
  sweep();
  EXPECT_EQ(h.tree().counts().regular, 0u);
  // While nothing may be changed it waits.
  const Ino c = fill("c");
  ASSERT_TRUE(h.tree().remove_tree(c, kRootIno, Wait::yes));
  ASSERT_TRUE(h.tree().reconfigure({.read_only = true}));
  clock.advance(std::chrono::seconds(1));
  EXPECT_EQ(removed(), 1u);
  ASSERT_TRUE(h.tree().reconfigure({.read_only = false}));
  sweep();
}

TEST(RemoveTreeWhenFull, NeedsNoRoomAndMakesSome) {
  Harness h;
  const Ino dir = h.mkdir(kRootIno, "d");
  int full = 0;
  for (int i = 0; full == 0; ++i) {
    std::string data(MiB, '\0');
    fill_with_noise(static_cast<std::uint64_t>(i), data);
    const Ino file = h.create(dir, std::to_string(i));
    full = code(h.tree().write(file, ByteOffset{0}, as_bytes(data), Wait::yes));
    h.tree().forget(file, 1);
  }
  ASSERT_EQ(full, ENOSPC);
  const Ino kept = h.create(kRootIno, "kept");
  const std::string data(8 * MiB, 'x');
  const auto write = [&] { return code(h.tree().write(kept, ByteOffset{0}, as_bytes(data), Wait::yes)); };
  ASSERT_EQ(write(), ENOSPC);
  std::uint64_t seen = 0;
  EXPECT_FALSE(h.tree().room_comes(Wait::yes, seen));
  ASSERT_TRUE(h.tree().remove_tree(dir, kRootIno, Wait::yes));
  h.tree().forget(dir, 1);
  EXPECT_TRUE(h.tree().room_comes(Wait::no, seen));
  int written = write();
  while (written == ENOSPC && h.tree().room_comes(Wait::yes, seen)) written = write();
  EXPECT_EQ(written, 0);
  EXPECT_EQ(h.check(), "");
}

// What has to be read begins a step again, and has changed nothing before.
TEST(RemoveTreeCold, RowsThatAreNotInMemoryAreReadWithoutTheLock) {
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0},
            {.store = [](std::unique_ptr<Store> inner) {
              static const ColdStore::Weather weather;
              return std::make_unique<ColdStore>(std::move(inner), weather);
            }});
  const Ino d = h.mkdir(kRootIno, "d"), outside = h.create(kRootIno, "outside", "data");
  for (int i = 0; i < 200; ++i) h.create(h.mkdir(d, "dir" + std::to_string(i)), "file", "data");
  ASSERT_TRUE(h.tree().link(outside, d, "inside", Wait::yes));
  h.remount();
  ASSERT_TRUE(h.tree().remove_tree(h.walk("d"), kRootIno, Wait::yes));
  while (*h.tree().sweep()) {
  }
  EXPECT_EQ(h.tree().counts().directories, 1u);
  EXPECT_EQ(h.tree().counts().regular, 1u);
  EXPECT_EQ(h.attr(h.walk("outside")).nlink, 1u);
  EXPECT_EQ(h.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::remove_tree_test
