// What a rename leaves behind moves to where its path says, and nobody sees a difference.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/xattr.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "kv/store_decorator.h"
#include "tree/harness.h"
#include "tree/keys.h"
#include "tree/pass.h"

namespace lsmfs::test::relocation_test {
namespace {

// Writes to tables what was committed next, so that it is not in memory any more.
class FlushesOnce : public StoreDecorator {
 public:
  using StoreDecorator::StoreDecorator;
  Result<void> commit(Batch& batch) override {
    LSMFS_TRY(inner().commit(batch));
    return armed.exchange(false) ? inner().flush() : Result<void>();
  }
  std::atomic<bool> armed = false;
};

class Relocation : public testing::Test {
 protected:
  void rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags = 0) {
    ASSERT_EQ(code(h.tree().rename(from_dir, from, to_dir, to, flags, Wait::yes)), 0) << from;
  }
  void relocate() {
    for (int i = 0; i < 10'000; ++i) {
      const auto more = h.tree().relocate();
      ASSERT_EQ(code(more), 0);
      if (!*more) break;
    }
    ASSERT_EQ(code(h.tree().sync()), 0);
  }
  std::uint64_t rows_below(const std::string& home) {
    EXPECT_EQ(code(h.tree().sync()), 0);
    return h.rows(Family::names, home) + h.rows(Family::blocks, home);
  }
  static std::string home(Ino ino, std::string_view name, const std::string& dir = {}) { return keys::child_home(dir, name, ino); }
  void set(Ino ino, const char* name, const std::string& value) { ASSERT_EQ(code(h.tree().setxattr(ino, name, value, 0, Wait::yes)), 0); }

  SteppedClock clock;
  Harness h{ByteCount{kDeviceMin}, {.sync_interval_ms = 0, .clock = &clock}};
  const Ino elsewhere = h.mkdir(kRootIno, "elsewhere");
  const std::string elsewhere_home = home(elsewhere, "elsewhere");
};

TEST_F(Relocation, OfADirectoryMovesAllThatLiesBelowIt) {
  const Ino d = h.mkdir(kRootIno, "d"), sub = h.mkdir(d, "sub"), deep = h.mkdir(sub, "deep");
  for (int i = 0; i < 300; ++i) h.create(i % 2 ? d : deep, fmt::format("f{}", i), fmt::format("contents {}", i));
  const Ino large = h.create(sub, "large", std::string(1 * MiB, 'l'));
  h.make(sub, "symlink", S_IFLNK | 0777, "target");
  const Ino twice = h.create(deep, "twice", "two names");
  ASSERT_TRUE(h.tree().link(twice, kRootIno, "other name", Wait::yes));
  for (const Ino ino : {d, deep, large}) set(ino, "user.large", std::string(5000, 'x'));
  rename(kRootIno, "d", elsewhere, "moved");
  const std::string before = home(d, "d"), after = home(d, "moved", elsewhere_home);
  const std::uint64_t rows = rows_below(before);
  EXPECT_GT(rows, 500u);
  EXPECT_EQ(rows_below(after), 0u);
  relocate();
  // The data of a file with two names stays.
  EXPECT_EQ(rows_below(before), 1u);
  EXPECT_EQ(rows_below(after), rows - 1);
  const auto check = [&] {
    EXPECT_EQ(h.check(), "");
    EXPECT_EQ(h.list(h.walk("elsewhere/moved")).size(), 151u);
    EXPECT_EQ(h.list(h.walk("elsewhere/moved/sub")), (std::vector<std::string>{"deep", "large", "symlink"}));
    for (int i = 0; i < 300; ++i) EXPECT_EQ(h.read_path(fmt::format("elsewhere/moved/{}f{}", i % 2 ? "" : "sub/deep/", i)), fmt::format("contents {}", i));
    EXPECT_EQ(h.read_path("elsewhere/moved/sub/large"), std::string(1 * MiB, 'l'));
    EXPECT_EQ(h.read_path("elsewhere/moved/sub/deep/twice"), "two names");
    EXPECT_EQ(h.read_path("other name"), "two names");
    for (const char* path : {"elsewhere/moved", "elsewhere/moved/sub/deep", "elsewhere/moved/sub/large"}) {
      const auto value = h.tree().getxattr(h.walk(path), "user.large", Wait::yes);
      EXPECT_TRUE(value && *value == std::string(5000, 'x')) << path;
    }
  };
  check();
  // What is made and changed there now lies there, too.
  h.create(deep, "new", "made after");
  h.write(large, 5000, "changed");
  h.write(twice, 0, "TWO");
  h.remount();
  EXPECT_EQ(h.read_path("elsewhere/moved/sub/deep/new"), "made after");
  EXPECT_EQ(h.read(h.walk("elsewhere/moved/sub/large"), 4999, 9), "lchangedl");
  EXPECT_EQ(h.read_path("other name"), "TWO names");
  EXPECT_EQ(rows_below(before), 1u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Relocation, OfAFileMovesItsBlocks) {
  const Ino file = h.create(kRootIno, "file", std::string(1 * MiB, 'x'));
  rename(kRootIno, "file", elsewhere, "file");
  EXPECT_EQ(rows_below(home(file, "file")), 256u);
  relocate();
  EXPECT_EQ(rows_below(home(file, "file")), 0u);
  EXPECT_EQ(rows_below(home(file, "file", elsewhere_home)), 256u);
  EXPECT_EQ(h.read(file), std::string(1 * MiB, 'x'));
  h.write(file, 1 * MiB, "more");
  rename(elsewhere, "file", kRootIno, "back");
  relocate();
  h.remount();
  EXPECT_EQ(h.read_path("back"), std::string(1 * MiB, 'x').append("more"));
  EXPECT_EQ(rows_below(home(file, "file", elsewhere_home)), 0u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Relocation, WhatIsLargeStays) {
  const Ino d = h.mkdir(kRootIno, "d");
  for (int i = 0; i < 5; ++i) h.create(d, fmt::format("f{}", i), std::string(1 * MiB, 'x'));
  rename(kRootIno, "d", elsewhere, "d");
  const std::uint64_t rows = rows_below(home(d, "d"));
  relocate();
  EXPECT_EQ(rows_below(home(d, "d")), rows);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Relocation, IsMadeUpForWhenAWalkComesBy) {
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "f", "contents");
  rename(kRootIno, "d", elsewhere, "d");
  h.remount();
  relocate();
  EXPECT_EQ(rows_below(home(d, "d")), 2u) << "nobody has come by";
  EXPECT_EQ(h.list(h.walk("elsewhere/d")), std::vector<std::string>{"f"});
  relocate();
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.read_path("elsewhere/d/f"), "contents");
}

TEST_F(Relocation, WhatLiesElsewhereIsCounted) {
  const auto displaced = [&] {
    EXPECT_EQ(code(h.tree().sync()), 0);
    EXPECT_EQ(h.check(), "");
    return h.tree().counts().displaced;
  };
  const Ino d = h.mkdir(kRootIno, "d"), empty = h.mkdir(kRootIno, "empty");
  for (int i = 0; i < 10; ++i) h.create(d, fmt::format("f{}", i), std::string(1 * MiB, 'x'));
  EXPECT_EQ(displaced(), 0u);
  rename(kRootIno, "empty", elsewhere, "empty");
  EXPECT_EQ(displaced(), 0u) << "nothing lies below it";
  rename(kRootIno, "d", elsewhere, "d");
  EXPECT_EQ(displaced(), 1u);
  rename(d, "f0", elsewhere, "f0");
  rename(d, "f1", empty, "f1");
  EXPECT_EQ(displaced(), 3u);
  ASSERT_EQ(code(h.tree().unlink(empty, "f1", Wait::yes)), 0);
  EXPECT_EQ(displaced(), 2u);
  // Whom nobody has open goes at once.
  const Ino f4 = h.walk("elsewhere/d/f4");
  rename(d, "f4", empty, "f4");
  EXPECT_EQ(displaced(), 3u);
  h.tree().forget(f4, 1'000);
  ASSERT_EQ(code(h.tree().unlink(empty, "f4", Wait::yes)), 0);
  EXPECT_EQ(displaced(), 2u);
  rename(d, "f3", empty, "f3");
  h.tree().forget(h.walk("elsewhere/empty/f3"), 1'000);
  rename(elsewhere, "f0", empty, "f3");
  EXPECT_EQ(displaced(), 2u) << "what was there is gone";
  rename(empty, "f3", elsewhere, "f0");
  h.remount();
  EXPECT_EQ(displaced(), 2u);
  h.list(h.walk("elsewhere/d"));
  EXPECT_GT(h.walk("elsewhere/f0").v, 0u);
  relocate();
  EXPECT_EQ(displaced(), 1u) << "what is large stays";
  rename(h.walk("elsewhere"), "d", kRootIno, "d");
  EXPECT_EQ(displaced(), 0u);
  // Whose record is not in an entry does not say so.
  rename(kRootIno, "d", h.walk("elsewhere"), "d");
  rename(h.walk("elsewhere/d"), "f2", kRootIno, "f2");
  EXPECT_EQ(displaced(), 2u);
  ASSERT_TRUE(h.tree().link(h.walk("f2"), kRootIno, "second", Wait::yes));
  EXPECT_EQ(displaced(), 1u);
  ASSERT_EQ(code(h.tree().unlink(kRootIno, "second", Wait::yes)), 0);
  EXPECT_EQ(displaced(), 2u);
}

TEST_F(Relocation, IsTriedAgainAfterAFlushBetweenItsSteps) {
  FlushesOnce* store = nullptr;
  h.between.store = [&](std::unique_ptr<Store> inner) {
    auto made = std::make_unique<FlushesOnce>(std::move(inner));
    store = made.get();
    return made;
  };
  h.remount();
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "f", std::string(100'000, 'x'));
  ASSERT_EQ(code(h.tree().sync()), 0);
  rename(kRootIno, "d", h.walk("elsewhere"), "d");
  store->armed = true;
  relocate();
  EXPECT_FALSE(store->armed);
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.read_path("elsewhere/d/f"), std::string(100'000, 'x'));
}

// Their rows lie among those of the directory that they have left.
TEST_F(Relocation, LeavesWhatHasLeftBefore) {
  const Ino d = h.mkdir(kRootIno, "d"), large = h.mkdir(d, "large"), small = h.mkdir(d, "small");
  for (int i = 0; i < 5; ++i) h.create(large, fmt::format("f{}", i), std::string(100'000, 'x'));
  h.create(small, "f", "small");
  h.create(d, "f", "stays in d");
  rename(d, "large", elsewhere, "large");
  rename(d, "small", elsewhere, "small");
  rename(kRootIno, "d", elsewhere, "d");
  h.remount();  // so that it is known of d alone
  (void)h.walk("elsewhere/d");
  ASSERT_TRUE(h.tree().relocate());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(h.read_path(fmt::format("elsewhere/large/f{}", i)), std::string(100'000, 'x'));
  EXPECT_EQ(h.read_path("elsewhere/small/f"), "small");
  EXPECT_EQ(h.read_path("elsewhere/d/f"), "stays in d");
  // And back again, under the directory that has gone on.
  rename(elsewhere, "small", h.walk("elsewhere/d"), "small");
  relocate();
  EXPECT_EQ(h.read_path("elsewhere/d/small/f"), "small");
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.check(), "");
}

TEST_F(Relocation, OfADirectoryIntoWhatWasItsChild) {
  const Ino d = h.mkdir(kRootIno, "d"), child = h.mkdir(d, "child");
  h.create(d, "f", "in d");
  h.create(child, "f", "in child");
  rename(d, "child", kRootIno, "child");
  rename(kRootIno, "d", child, "d");
  relocate();
  EXPECT_EQ(h.read_path("child/d/f"), "in d");
  EXPECT_EQ(h.read_path("child/f"), "in child");
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  h.remount();
  EXPECT_EQ(h.read_path("child/d/f"), "in d");
  EXPECT_EQ(h.check(), "");
}

// What has just been made has no row yet, only a record that is still to come.
TEST_F(Relocation, OfADirectoryMovesWhatHasJustBeenMadeInIt) {
  const Ino d = h.mkdir(kRootIno, "d"), sub = h.mkdir(d, "sub");
  rename(kRootIno, "d", elsewhere, "d");
  ASSERT_EQ(code(h.tree().sync()), 0);
  h.make(d, "empty", S_IFREG | 0600);
  h.mkdir(sub, "new");
  ASSERT_EQ(code(h.tree().relocate()), 0);
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.check(), "");
  EXPECT_EQ(h.list(d), (std::vector<std::string>{"empty", "sub"}));
  EXPECT_EQ(h.list(sub), std::vector<std::string>{"new"});
}

// Attributes that have just been changed go with the record, and no commit is waited for.
TEST_F(Relocation, OfADirectoryKeepsAttributesThatHaveJustBeenChanged) {
  const Ino d = h.mkdir(kRootIno, "d"), f = h.create(d, "f", "contents");
  rename(kRootIno, "d", elsewhere, "d");
  ASSERT_EQ(code(h.tree().sync()), 0);
  for (const Ino ino : {d, f}) ASSERT_TRUE(h.tree().setattr(ino, {.uid = 7u}, Wait::yes));
  ASSERT_EQ(code(h.tree().relocate()), 0);
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.check(), "");
  h.remount();
  for (const char* path : {"elsewhere/d", "elsewhere/d/f"}) EXPECT_EQ(h.tree().getattr(h.walk(path), Wait::yes)->uid, 7u) << path;
}

TEST_F(Relocation, StopsWhereAPathIsTooLong) {
  const std::string name(255, 'n');
  Ino at = elsewhere;
  for (int i = 0; i < 62; ++i) at = h.mkdir(at, name);  // nearly as deep as homes may be
  const Ino d = h.mkdir(kRootIno, "d"), sub = h.mkdir(d, name);
  h.create(h.mkdir(sub, name), "f", "deep");
  rename(kRootIno, "d", at, "d");
  relocate();
  EXPECT_EQ(h.read(h.tree().lookup(h.tree().lookup(sub, name, Wait::yes).value()->ino, "f", Wait::yes).value()->ino), "deep");
  EXPECT_EQ(h.check(), "");
}

TEST_F(Relocation, AListingGoesOnAcrossIt) {
  const Ino d = h.mkdir(kRootIno, "d");
  std::vector<std::string> names;
  for (char c = 'a'; c <= 'z'; ++c) h.create(d, names.emplace_back(1, c), "x");
  rename(kRootIno, "d", elsewhere, "d");
  std::vector<std::string> found;
  std::uint64_t cookie = 0;
  for (bool more = true; more;) {
    more = false;
    ASSERT_TRUE(h.tree().readdir(d, cookie, AttrsOf::none, [&](const DirEntry& entry) {
      if (more && found.size() % 5 == 0) return false;
      more = true;
      cookie = entry.next_cookie;
      if (entry.name != "." && entry.name != "..") found.emplace_back(entry.name);
      return true;
    }, Wait::yes));
    if (found.size() == 5) {
      relocate();
      EXPECT_EQ(rows_below(home(d, "d")), 0u);
    }
  }
  EXPECT_EQ(found, names);
}

TEST_F(Relocation, IsDoneByItself) {
  h.options.sync_interval_ms = 5000;
  h.remount();
  const Ino d = h.mkdir(kRootIno, "d");
  h.create(d, "f", "contents");
  rename(kRootIno, "d", h.walk("elsewhere"), "d");
  pass(clock, std::chrono::milliseconds(999));
  EXPECT_EQ(rows_below(home(d, "d")), 2u);
  pass(clock, std::chrono::milliseconds(1));
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  EXPECT_EQ(h.read_path("elsewhere/d/f"), "contents");
}

TEST_F(Relocation, NobodyWhoReadsOrWritesMeanwhileSeesADifference) {
  const Ino d = h.mkdir(kRootIno, "d"), sub = h.mkdir(d, "sub");
  const Ino file = h.create(sub, "file", std::string(300'000, 'x')), log = h.create(d, "log");
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    while (!stop) {
      EXPECT_EQ(h.read(file), std::string(300'000, 'x'));
      EXPECT_EQ(h.list(sub), std::vector<std::string>{"file"});
    }
  });
  constexpr std::size_t kLines = 20'000;  // all stays small enough to move
  std::size_t written = 0;
  std::thread writer([&] {
    for (; !stop; ++written) h.write(log, written % kLines * 5, "line\n");
  });
  for (int i = 0; i < 100; ++i) {
    rename(i % 2 ? elsewhere : kRootIno, "d", i % 2 ? kRootIno : elsewhere, "d");
    relocate();
  }
  stop = true;
  reader.join();
  writer.join();
  // Flushes may have kept some of the hundred from moving, but not these.
  rename(kRootIno, "d", elsewhere, "d");
  relocate();
  EXPECT_EQ(rows_below(home(d, "d")), 0u);
  rename(elsewhere, "d", kRootIno, "d");
  relocate();
  EXPECT_EQ(rows_below(home(d, "d", elsewhere_home)), 0u);
  EXPECT_EQ(h.read(log).size(), std::min(written, kLines) * 5);
  EXPECT_EQ(h.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::relocation_test
