// Groups: what happens to operations while the one before them is being committed, or cannot be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <atomic>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "gate.h"
#include "tree/harness.h"
#include "tree/held_store.h"
#include "tree/pass.h"
#include "until.h"

namespace lsmfs::test::group_test {
namespace {

using namespace std::chrono_literals;

class Groups : public testing::Test {
 protected:
  void TearDown() override { commits_.open(); }  // their waiters end before the tree

  Tree& tree() { return h_.tree(); }
  void pass(Clock::Duration time) { test::pass(clock_, time); }
  // Makes the file number `i`, with 8 KiB of data and its attributes changed, as tar would; or says why not at once.
  int unpack(int i) {
    const auto made = at_once([&](Wait w) { return tree().make(kRootIno, name(i), {.mode = S_IFREG | 0600}, w); });
    if (!made) return code(made);
    const std::string data(8192, static_cast<char>('a' + i % 26));
    const auto written = at_once([&](Wait w) { return tree().write(made->ino, ByteOffset{0}, as_bytes(data), w); });
    if (!written) return code(written);
    return code(at_once([&](Wait w) { return tree().setattr(made->ino, {.mode = 0640u}, w); }));
  }
  // Without waiting for a commit; 0 when there is no such name.
  Attr look(const std::string& wanted) {
    const auto found = at_once([&](Wait w) { return tree().lookup(kRootIno, wanted, w); });
    EXPECT_TRUE(found.has_value()) << wanted;
    return found && *found ? **found : Attr{};
  }
  static std::string name(int i) { return fmt::format("file-{:05}", i); }

  SteppedClock clock_;
  Gate commits_{true};
  std::string notices_;
  HeldStore* held_ = nullptr;  // of this mount
  Harness h_{ByteCount{256 * MiB},
             {.sync_interval_ms = 0, .clock = &clock_, .notice = [this](std::string_view line) { notices_ += std::string(line) + "\n"; }},
             {.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> {
               auto held = std::make_unique<HeldStore>(std::move(inner), commits_);
               held_ = held.get();
               return held;
             }}};
};

TEST_F(Groups, WhatWasSyncedIsNotedInTheStoreAfterAWhileIfThereIsATimer) {
  ASSERT_EQ(unpack(1), 0);
  ASSERT_TRUE(tree().sync());
  pass(1h);
  EXPECT_EQ(held_->notes(), 0);
  ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 10}));
  pass(0s);
  EXPECT_EQ(held_->notes(), 1) << "it is an hour old by now";
  ASSERT_EQ(unpack(2), 0);
  ASSERT_TRUE(tree().sync());
  pass(9ms);
  EXPECT_EQ(held_->notes(), 1);
  pass(1ms);
  EXPECT_EQ(held_->notes(), 2);
  pass(1h);
  EXPECT_EQ(held_->notes(), 2);
}

// To wake another thread for it would take as long as the commit.
TEST_F(Groups, WhoWaitsForACommitDoesItUnlessItIsUnderWay) {
  std::atomic<int> here = 0, elsewhere = 0;
  held_->on_commit = [&, thread = std::this_thread::get_id()] { ++(std::this_thread::get_id() == thread ? here : elsewhere); };
  ASSERT_EQ(unpack(0), 0);
  ASSERT_TRUE(tree().sync());
  EXPECT_EQ(here, 1);
  held_->hold();
  for (int i = 1; i < 60; ++i) ASSERT_EQ(unpack(i), 0);  // a group becomes large
  ASSERT_TRUE(held_->await_waiting());
  std::jthread waiter([&] { EXPECT_TRUE(tree().sync()); });  // for what the committer's thread is at, and then for the rest
  held_->release();
  waiter.join();
  EXPECT_EQ(here, 1);
  EXPECT_EQ(elsewhere, 2);
  held_->on_commit = [] {};
}

// Which is what the background thread hears of first is the machine's choice.
TEST_F(Groups, ASyncRightAfterATimerIsSetIsNotedAsWell) {
  for (int round = 1; round <= 30; ++round) {
    ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 0}));
    const int before = held_->notes();
    ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 10}));
    ASSERT_TRUE(tree().sync());
    pass(10ms);
    ASSERT_EQ(held_->notes(), before + 1) << "in round " << round;
  }
}

// Else all of it would be waited for at once, by whoever fills a memtable.
TEST_F(Groups, WhatWasWrittenInABurstIsMadeDurableBeforeItsTime) {
  const std::string data(128 * KiB, 'x');
  const auto made = tree().make(kRootIno, "f", {.mode = S_IFREG | 0600}, Wait::yes);
  ASSERT_TRUE(made);
  std::uint64_t written = 0;
  const auto write = [&](std::uint64_t bytes) {
    for (const std::uint64_t end = written + bytes; written < end; written += data.size()) {
      ASSERT_TRUE(tree().write(made->ino, ByteOffset{written}, as_bytes(data), Wait::yes));
    }
    pass(0s);
  };
  write(20 * MiB);
  EXPECT_EQ(held_->syncs(), 0) << "without a timer nothing is";
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 3'600'000}));
  const int before = held_->syncs();
  write(12 * MiB);
  EXPECT_EQ(held_->syncs(), before);
  write(8 * MiB);
  EXPECT_EQ(held_->syncs(), before + 1);
}

TEST_F(Groups, OperationsGoOnWhileAGroupIsCommittedUntilTheNextIsLarge) {
  held_->hold();
  int made = 0;
  // The group of 256 KiB that is being committed, and one of four times as much.
  while (made * 8 < 1200) ASSERT_EQ(unpack(made++), 0);
  const Ino some = look(name(0)).ino;
  const auto is_refused = [&] {  // and not because the tree's own thread has the mutex for a moment
    for (int tries = 0; tries < 100; ++tries) {
      if (code(tree().setattr(some, {.mode = 0640u}, Wait::no)) != EAGAIN) return false;
    }
    return true;
  };
  while (made * 8 < 1600 && !is_refused()) ASSERT_EQ(unpack(made++), 0);
  EXPECT_LT(made * 8, 1600);
  ASSERT_TRUE(held_->await_waiting());
  // What no commit has written yet is known all the same.
  for (int i = 0; i < made; ++i) {
    const Attr attr = look(name(i));
    EXPECT_EQ(attr.mode, S_IFREG | 0640u);
    EXPECT_EQ(attr.size, 8192u);
  }
  EXPECT_EQ(look("no such name").ino, Ino{});
  // Rows are not: reading them waits.
  std::string data(8192, '?');
  const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
  const Ino first = look(name(0)).ino;
  EXPECT_EQ(code(tree().read(first, ByteOffset{0}, to, Wait::no)), EAGAIN);
  EXPECT_EQ(code(tree().readdir(kRootIno, 0, AttrsOf::all, [](const DirEntry&) { return true; }, Wait::no)), EAGAIN);
  held_->release();
  ASSERT_TRUE(tree().unlink(kRootIno, name(1), Wait::yes));
  EXPECT_TRUE(tree().read(first, ByteOffset{0}, to, Wait::yes).has_value());
  EXPECT_EQ(data, std::string(8192, 'a'));
  ASSERT_TRUE(tree().sync().has_value());
  h_.remount();
  for (int i = 0; i < made; ++i) {
    const Ino ino = [&] {
      const auto found = tree().lookup(kRootIno, name(i), Wait::yes);
      return found && *found ? (*found)->ino : Ino{};
    }();
    EXPECT_EQ(ino == Ino{}, i == 1) << name(i);
    if (ino == Ino{}) continue;
    ASSERT_TRUE(tree().read(ino, ByteOffset{0}, to, Wait::yes).has_value());
    EXPECT_EQ(data, std::string(8192, static_cast<char>('a' + i % 26))) << name(i);
  }
  h_.unmount();
}

// They have let go of the tree's lock.
TEST_F(Groups, NobodyElseWaitsBesideThoseWhoWaitForACommit) {
  ASSERT_EQ(unpack(0), 0);
  const auto made = tree().make(kRootIno, "dir 1", {.mode = S_IFDIR | 0755}, Wait::yes);
  ASSERT_TRUE(made);
  const Ino dir = made->ino, other = look(name(0)).ino;
  const std::string long_value(2000, 'v');
  std::string data(8192, '?');
  const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
  int files = 1;
  Ino file;
  // What waits for a commit of what has just been done to `file`, which is new.
  const std::pair<const char*, std::function<int()>> waiters[] = {
      {"sync", [&] { return code(tree().sync()); }},
      {"readdir", [&] { return code(tree().readdir(kRootIno, 0, AttrsOf::all, [](const DirEntry&) { return true; }, Wait::yes)); }},
      {"read", [&] { return code(tree().read(file, ByteOffset{0}, to, Wait::yes)); }},
      {"getxattr", [&] { return code(tree().getxattr(file, "user.long", Wait::yes)); }},
      {"relocate", [&] { return code(tree().relocate()); }},
      {"read only", [&] { return code(tree().reconfigure({.read_only = true})); }},
  };
  for (const auto& [what, wait] : waiters) {
    SCOPED_TRACE(what);
    ASSERT_EQ(unpack(files), 0);
    file = look(name(files++)).ino;
    ASSERT_TRUE(tree().setxattr(file, "user.long", long_value, 0, Wait::yes));
    ASSERT_TRUE(tree().make(dir, name(files), {.mode = S_IFREG | 0600}, Wait::yes));
    ASSERT_TRUE(tree().rename(kRootIno, fmt::format("dir {}", files - 1), kRootIno, fmt::format("dir {}", files), 0, Wait::yes));
    held_->hold();
    std::atomic<int> outcome = -1;
    std::jthread waiter([&] { outcome = wait(); });
    ASSERT_TRUE(held_->await_waiting());
    // A relocation needs all groups, and so has nobody else change anything.
    const int refused = what == std::string_view("read only") ? EROFS : what == std::string_view("relocate") ? EAGAIN : 0;
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().getattr(other, w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().lookup(kRootIno, name(files), w); })), 0);
    if (refused != EAGAIN) {
      EXPECT_EQ(code(at_once([&](Wait w) { return tree().setattr(other, {.uid = 7u}, w); })), refused);
      EXPECT_EQ(code(at_once([&](Wait w) { return tree().make(dir, fmt::format("made during {}", what), {.mode = S_IFREG}, w); })), refused);
    }
    EXPECT_EQ(outcome, -1);
    held_->release();
    waiter.join();
    EXPECT_EQ(outcome, 0);
  }
}

TEST_F(Groups, NobodyElseWaitsBesideTheTimer) {
  ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 10}));
  ASSERT_EQ(unpack(0), 0);
  held_->hold();
  clock_.advance(10ms);
  ASSERT_TRUE(held_->await_waiting());
  EXPECT_EQ(unpack(1), 0);
  EXPECT_NE(look(name(1)).ino, Ino{});
  held_->release();
}

// A file that is written all the time can be read: those who write it let who has waited for some commits go first.
TEST_F(Groups, WhoReadsWhatOthersGoOnToWriteGetsItsTurn) {
  ASSERT_EQ(unpack(0), 0);
  const Ino file = look(name(0)).ino;
  int written = 0, refused = 0;
  held_->on_commit = [&] {
    if (written == 50) return;  // or this has no end without that
    int outcome = EAGAIN;
    for (int look = 0; look < 100'000 && outcome == EAGAIN; ++look) {  // the lock is given up in a moment
      outcome = code(tree().write(file, ByteOffset{0}, as_bytes("more"), Wait::no));
      std::this_thread::yield();
    }
    ++(outcome == 0 ? written : refused);
  };
  std::string data(8, '?');
  const auto read = tree().read(file, ByteOffset{0}, {reinterpret_cast<std::byte*>(data.data()), data.size()}, Wait::yes);
  ASSERT_TRUE(read);
  EXPECT_EQ(data, "moreaaaa");
  EXPECT_GT(written, 0);
  EXPECT_LT(written, 50);
  EXPECT_GT(refused, 0);
  held_->on_commit = [] {};
  EXPECT_EQ(code(tree().write(file, ByteOffset{0}, as_bytes("end"), Wait::yes)), 0) << "and then the others go on";
}

// Or the next sync commits the records of all files that a walk has read, and everybody waits for that.
TEST_F(Groups, AccessTimesOfAWalkAreNotGatheredInOneGroup) {
  constexpr int kFiles = 2600;  // more than groups of which one waits for the other may hold
  std::vector<Ino> files;
  for (int i = 0; i < kFiles; ++i) {
    const auto made = tree().make(kRootIno, name(i), {.mode = S_IFREG | 0600}, Wait::yes);
    ASSERT_TRUE(made.has_value());
    files.push_back(made->ino);
  }
  ASSERT_TRUE(tree().sync().has_value());
  const int before = held_->commits();
  for (const Ino file : files) ASSERT_TRUE(tree().read(file, ByteOffset{0}, {}, Wait::yes).has_value());
  EXPECT_TRUE(until([&] { return held_->commits() > before; }));
}

TEST_F(Groups, WhatIsChangedWhileItsRecordIsBeingCommittedIsNotLost) {
  held_->hold();
  int made = 0;
  while (made * 8 < 300) ASSERT_EQ(unpack(made++), 0);  // the first group is on its way
  ASSERT_TRUE(held_->await_waiting());
  // Not in use any more, and yet neither the commit that is under way nor a lookup may lose what comes now.
  const Ino first = look(name(0)).ino;
  tree().forget(first, 2);
  EXPECT_EQ(code(at_once([&](Wait w) { return tree().setattr(look(name(0)).ino, {.uid = 77}, w); })), 0);
  tree().forget(first, 1);
  EXPECT_EQ(code(at_once([&](Wait w) { return tree().unlink(kRootIno, name(1), w); })), 0);
  EXPECT_EQ(look(name(1)).ino, Ino{}) << "although the group under way makes it";
  EXPECT_EQ(unpack(1), 0) << "and it can be made again";
  const Ino again = look(name(1)).ino;
  held_->release();
  ASSERT_TRUE(tree().sync().has_value());
  EXPECT_EQ(look(name(0)).uid, 77u);
  h_.remount();
  EXPECT_EQ((*tree().lookup(kRootIno, name(0), Wait::yes))->uid, 77u);
  EXPECT_EQ((*tree().lookup(kRootIno, name(1), Wait::yes))->ino, again);
  h_.unmount();
}

TEST_F(Groups, ACommitThatFailsInTheBackgroundMakesTheTreeReadOnly) {
  ASSERT_EQ(unpack(0), 0);
  ASSERT_TRUE(tree().sync().has_value());
  held_->hold();
  for (int i = 1; i < 60; ++i) ASSERT_EQ(unpack(i), 0);
  ASSERT_TRUE(held_->await_waiting());
  held_->release(EIO);
  EXPECT_EQ(code(tree().sync()), EIO);
  EXPECT_EQ(code(tree().make(kRootIno, "more", {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(tree().sync()), EIO) << "and it stays so";
  EXPECT_NE(notices_.find("read-only from now on"), std::string::npos) << notices_;
  EXPECT_EQ(notices_.find("read-only"), notices_.rfind("read-only")) << "said once: " << notices_;
  // What had been committed before can be read.
  std::string data(8192, '?');
  const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
  const auto found = tree().lookup(kRootIno, name(0), Wait::yes);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_TRUE(tree().read((*found)->ino, ByteOffset{0}, to, Wait::yes).has_value());
  EXPECT_EQ(data, std::string(8192, 'a'));
}

// Programs write a file under another name and rename it at once. That must not end each such group with it.
TEST_F(Groups, ARenameOfWhatWasJustWrittenWaitsForNoCommit) {
  ASSERT_EQ(unpack(0), 0);
  ASSERT_TRUE(tree().sync());
  const int commits = held_->commits();
  std::vector<std::string> contents;
  const auto write = [&](Ino ino, std::uint64_t offset, const std::string& data) {
    ASSERT_EQ(code(at_once([&](Wait w) { return tree().write(ino, ByteOffset{offset}, as_bytes(data), w); })), 0);
    std::string& content = contents.back();
    content.resize(std::max<std::size_t>(content.size(), offset + data.size()));
    content.replace(offset, data.size(), data);
  };
  const auto finish = [&](Ino ino, int error) {
    const std::string to = fmt::format("to {}", contents.size() - 1);
    const auto rename = [&](Wait w) { return tree().rename(kRootIno, "temporary", kRootIno, to, 0, w); };
    EXPECT_EQ(code(error == 0 ? at_once(rename) : rename(Wait::no)), error) << to;
    if (error != 0) {
      EXPECT_EQ(code(rename(Wait::yes)), 0) << to;
    }
    tree().forget(ino, 1);
  };
  const auto make = [&] {
    contents.emplace_back();
    const auto made = at_once([&](Wait w) { return tree().make(kRootIno, "temporary", {.mode = S_IFREG | 0600}, w); });
    EXPECT_TRUE(made.has_value());
    return made->ino;
  };
  for (const std::size_t size : {1, 100, 4096, 5000, 60'000}) {
    const Ino ino = make();
    for (std::size_t at = 0; at < size; at += 7000) write(ino, at, std::string(std::min<std::size_t>(7000, size - at), static_cast<char>('a' + at / 7000)));
    finish(ino, 0);
  }
  {
    const Ino ino = make();  // a block again, and one with a hole before it
    write(ino, 0, std::string(8192, 'a'));
    write(ino, 4096, std::string(4096, 'b'));
    write(ino, 0, std::string(4096, 'c'));
    write(ino, 20'000, "after a hole");
    finish(ino, 0);
  }
  {
    const Ino ino = make();  // as git does it
    write(ino, 0, std::string(9000, 'g'));
    const std::string to = fmt::format("to {}", contents.size() - 1);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().link(ino, kRootIno, to, w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree().unlink(kRootIno, "temporary", w); })), 0);
    tree().forget(ino, 2);
  }
  {
    const Ino ino = make();
    write(ino, 0, std::string(8192, 'a'));
    write(ino, 100, "in the middle");
    finish(ino, 0);
  }
  const auto truncate = [&](Ino ino, std::uint64_t size) {
    ASSERT_EQ(code(at_once([&](Wait w) { return tree().setattr(ino, {.size = size}, w); })), 0);
    contents.back().resize(size);
  };
  for (const std::uint64_t size : {5000, 4096, 1, 0}) {
    const Ino ino = make();
    write(ino, 0, std::string(12'000, 'a'));
    truncate(ino, size);
    truncate(ino, 9000);
    write(ino, 8999, "anew");
    finish(ino, 0);
  }
  {
    const Ino ino = make();
    write(ino, 0, std::string(12'000, 'a'));
    truncate(ino, 0);
    write(ino, 0, "anew");
    finish(ino, 0);
  }
  EXPECT_EQ(held_->commits(), commits);

  // What has rows in the store already is for the store.
  {
    const Ino ino = make();
    write(ino, 0, std::string(8192, 'a'));
    ASSERT_TRUE(tree().sync());
    write(ino, 100, "in the middle");
    finish(ino, EAGAIN);
  }
  {
    const Ino ino = make();  // a hole in it
    write(ino, 0, std::string(12'000, 'a'));
    ASSERT_TRUE(tree().fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{4096}, ByteCount{5000}, Wait::yes));
    contents.back().replace(4096, 5000, std::string(5000, '\0'));
    finish(ino, EAGAIN);
  }
  {
    const Ino ino = make();  // larger than what is moved
    for (std::uint64_t at = 0; at < 300'000; at += 10'000) write(ino, at, std::string(10'000, static_cast<char>('a' + at / 10'000 % 26)));
    write(ino, 300'000, "and its end");
    finish(ino, 0);
  }
  // Nor for one that is under way. None may be yet: when one ends unnoticed, nothing begins the next.
  ASSERT_TRUE(tree().sync());
  held_->hold();
  const Ino moved = make();
  write(moved, 0, std::string(9000, 'm'));
  for (int i = 1; i < 45; ++i) ASSERT_EQ(unpack(i), 0);  // more than one group takes
  ASSERT_TRUE(held_->await_waiting());
  finish(moved, 0);
  held_->release();
  const auto expect_all = [&] {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const auto found = tree().lookup(kRootIno, fmt::format("to {}", i), Wait::yes);
      ASSERT_TRUE(found.has_value() && *found);
      std::string data((*found)->size, '?');
      const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
      EXPECT_EQ(code(tree().read((*found)->ino, ByteOffset{0}, to, Wait::yes)), 0);
      EXPECT_TRUE(data == contents[i]) << i;
      tree().forget((*found)->ino, 1);
    }
  };
  expect_all();
  h_.remount();
  expect_all();
}

// Nothing of what a new file was before its group is committed is written.
TEST_F(Groups, ANewFileIsWrittenOnceWhateverBecomesOfIt) {
  constexpr std::size_t kSize = 60'000;
  const auto make = [&](const std::string& name) {
    const auto made = tree().make(kRootIno, name, {.mode = S_IFREG | 0600}, Wait::yes);
    EXPECT_TRUE(made.has_value());
    EXPECT_EQ(code(tree().write(made->ino, ByteOffset{0}, as_bytes(std::string(kSize, 'a')), Wait::yes)), 0);
    return made->ino;
  };
  const auto committed = [&](const auto& work) {
    EXPECT_EQ(code(tree().sync()), 0);
    const std::size_t before = held_->bytes();
    work();
    EXPECT_EQ(code(tree().sync()), 0);
    return held_->bytes() - before;
  };
  EXPECT_LT(committed([&] {
              const Ino ino = make("temporary");
              EXPECT_EQ(code(tree().write(ino, ByteOffset{5000}, as_bytes(std::string(20'000, 'b')), Wait::yes)), 0);
              EXPECT_EQ(code(tree().rename(kRootIno, "temporary", kRootIno, "first", 0, Wait::yes)), 0);
              EXPECT_EQ(code(tree().rename(kRootIno, "first", kRootIno, "second", 0, Wait::yes)), 0);
              tree().forget(ino, 1);
            }),
            kSize + 4096);
  EXPECT_LT(committed([&] {
              const Ino ino = make("short-lived");
              EXPECT_EQ(code(tree().unlink(kRootIno, "short-lived", Wait::yes)), 0);
              tree().forget(ino, 1);
            }),
            2048u);
  EXPECT_LT(committed([&] {
              const Ino ino = make("emptied");
              EXPECT_TRUE(tree().setattr(ino, {.size = 0u}, Wait::yes));
              tree().forget(ino, 1);
            }),
            2048u);
  // Two that change places, of which one is in the store: to read it takes a commit.
  const Ino old = make("old");
  ASSERT_TRUE(tree().sync());
  EXPECT_EQ(code(tree().write(old, ByteOffset{0}, as_bytes("x"), Wait::yes)), 0);
  const Ino young = make("young");
  EXPECT_EQ(code(tree().rename(kRootIno, "young", kRootIno, "old", RENAME_EXCHANGE, Wait::yes)), 0);
  for (const auto& [ino, first] : {std::pair{old, 'x'}, std::pair{young, 'a'}}) {
    std::string data(kSize, '?');
    EXPECT_EQ(code(tree().read(ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(data.data()), data.size()}, Wait::yes)), 0);
    EXPECT_EQ(data, first + std::string(kSize - 1, 'a'));
    tree().forget(ino, 1);
  }
}

class GroupsAfterAFailure : public Groups {
 protected:
  void read_first(int error = 0) {
    std::string data(8192, '?');
    const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
    EXPECT_EQ(code(tree().read(look(name(0)).ino, ByteOffset{0}, to, Wait::yes)), error);
    EXPECT_EQ(data, std::string(8192, 'a'));
  }
  // What should have been synced by now stays for ever as it is.
  void expect_rest() {
    EXPECT_TRUE(tree().read_only());
    read_first();
    const int syncs = held_->syncs(), commits = held_->commits(), notes = held_->notes();
    pass(1h);  // the background thread waits for a later time, which it would not if something were due
    EXPECT_EQ(held_->syncs(), syncs);
    EXPECT_EQ(held_->commits(), commits);
    EXPECT_EQ(held_->notes(), notes);
  }
  // Nobody has to wait for a commit that never comes.
  void expect_gone(Ino ino, std::uint64_t lookups) {
    tree().forget(ino, lookups);
    EXPECT_EQ(code(tree().getattr(ino, Wait::yes)), ESTALE);
  }
};

TEST_F(GroupsAfterAFailure, OfACommitTheBackgroundThreadRests) {
  ASSERT_EQ(unpack(0), 0);
  const Ino first = look(name(0)).ino;
  ASSERT_TRUE(tree().sync());
  held_->hold();
  for (int i = 1; i < 60; ++i) ASSERT_EQ(unpack(i), 0);
  const Ino sealed = look(name(1)).ino, open = look(name(59)).ino;
  for (const Ino ino : {sealed, open}) tree().forget(ino, 2);
  ASSERT_TRUE(held_->await_waiting());
  ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 50}));
  held_->release(EIO);
  pass(0s);  // the committer has ended
  pass(50ms);
  expect_rest();
  for (const Ino ino : {sealed, open}) expect_gone(ino, 0);
  expect_gone(first, 3);
}

TEST_F(GroupsAfterAFailure, OfASyncTheBackgroundThreadRests) {
  ASSERT_EQ(unpack(0), 0);
  const Ino first = look(name(0)).ino, removed = [&] {
    EXPECT_EQ(unpack(1), 0);
    return look(name(1)).ino;
  }();
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(tree().unlink(kRootIno, name(1), Wait::yes));
  held_->fail_syncs(EIO);
  EXPECT_EQ(code(tree().sync()), EIO);
  ASSERT_TRUE(tree().reconfigure({.sync_interval_ms = 50}));
  expect_gone(removed, 2);
  expect_rest();
  expect_gone(first, 3);
}

}  // namespace
}  // namespace lsmfs::test::group_test
