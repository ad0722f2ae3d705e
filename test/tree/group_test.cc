// Groups: what happens to operations while the one before them is being committed, or cannot be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "tree/harness.h"

namespace lsmfs::test {
namespace {

// A store whose commits wait while it is held, or fail.
class HeldStore final : public Store {
 public:
  explicit HeldStore(Store& store) : store_(store) {}

  void hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release(int error = 0) {
    std::lock_guard lock(mutex_);
    held_ = false;
    error_ = error;
    changed_.notify_all();
  }
  // Returns whether a commit waits, or comes to it within a minute.
  bool await_waiting() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [this] { return waiting_ > 0; });
  }

  int commits() const { return commits_; }  // begun
  std::size_t bytes() const { return bytes_; }  // of the batches that were committed

  Result<void> commit(Batch& batch) override {
    std::unique_lock lock(mutex_);
    ++commits_;
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !held_; });
    --waiting_;
    if (error_ != 0) return make_error(error_, "the device");
    bytes_ += batch.bytes();
    return store_.commit(batch);
  }
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    return store_.get(family, key, wait);
  }
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    return store_.cursor(family, options);
  }
  void keep_in_memory(const Batch& batch) override { store_.keep_in_memory(batch); }
  void share_cache(ByteCount taken) override { store_.share_cache(taken); }
  ByteCount cache_share() const override { return store_.cache_share(); }
  Result<void> sync() override {
    ++syncs_;
    if (sync_error_ != 0) return make_error(sync_error_, "the device");
    return store_.sync();
  }
  void fail_syncs(int error) { sync_error_ = error; }
  Result<void> note_synced() override {
    ++notes_;
    return store_.note_synced();
  }
  int notes() const { return notes_; }
  int syncs() const { return syncs_; }
  Result<void> drop_caches() override { return {}; }
  Result<void> flush() override { return store_.flush(); }
  Result<std::vector<std::string>> verify(Family family, const std::function<void(ByteCount)>& progress) override {
    return store_.verify(family, progress);
  }
  Result<StoreScrubStep> scrub(ScrubPosition& position, const Stop& stop) override { return store_.scrub(position, stop); }
  Result<void> compact(Family family, std::string_view from, std::string_view to) override {
    return store_.compact(family, from, to);
  }
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override { return store_.trim(range, stop); }
  Result<void> set_read_only(bool read_only) override { return store_.set_read_only(read_only); }
  Result<void> close() override { return store_.close(); }
  ByteCount room() const override { return store_.room(); }
  Space space() const override { return store_.space(); }
  StoreStats stats() const override { return store_.stats(); }

 private:
  Store& store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int error_ = 0;
  int waiting_ = 0;
  std::atomic<std::size_t> bytes_ = 0;
  std::atomic<int> commits_ = 0, notes_ = 0, syncs_ = 0, sync_error_ = 0;
};

// Calls f(Wait::no), again for a while when it says EAGAIN: the tree's own thread may have the mutex for a moment, and a
// moment is long on a machine that is busy.
template <class F>
auto at_once(F&& f) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (true) {
    auto result = f(Wait::no);
    if (code(result) != EAGAIN || std::chrono::steady_clock::now() > patience) return result;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

class Groups : public testing::Test {
 protected:
  Groups() : device_(memory_device(ByteCount{256 * MiB})) {
    EXPECT_TRUE(Volume::format(*device_, {}).has_value());
    start(true);
  }
  void start(bool format = false) {
    volume_ = std::move(*Volume::open(*device_));
    store_ = std::move(*Store::open(*volume_, {.cache = ByteCount{32 * MiB}}));
    if (format) {
      EXPECT_TRUE(Tree::format(*store_).has_value());
    }
    held_ = std::make_unique<HeldStore>(*store_);
    tree_ = std::move(*Tree::open(
        *held_, {.sync_interval_ms = 0, .notice = [this](std::string_view line) { notices_ += std::string(line) + "\n"; }}));
  }
  void stop() {
    (void)tree_->close();
    tree_.reset();
    EXPECT_TRUE(store_->close().has_value());
    store_.reset();
    volume_.reset();
  }
  void TearDown() override {
    if (held_) held_->release();  // its waiters end before it
  }
  // Makes the file number `i`, with 8 KiB of data and its attributes changed, as tar would; or says why not at once.
  int unpack(int i) {
    const auto made = at_once([&](Wait w) { return tree_->make(kRootIno, name(i), {.mode = S_IFREG | 0600}, w); });
    if (!made) return code(made);
    const std::string data(8192, static_cast<char>('a' + i % 26));
    const auto written = at_once([&](Wait w) { return tree_->write(made->ino, ByteOffset{0}, as_bytes(data), w); });
    if (!written) return code(written);
    return code(at_once([&](Wait w) { return tree_->setattr(made->ino, {.mode = 0640u}, w); }));
  }
  // Without waiting for a commit; 0 when there is no such name.
  Attr look(const std::string& wanted) {
    const auto found = at_once([&](Wait w) { return tree_->lookup(kRootIno, wanted, w); });
    EXPECT_TRUE(found.has_value()) << wanted;
    return found && *found ? **found : Attr{};
  }
  static std::string name(int i) { return fmt::format("file-{:05}", i); }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<HeldStore> held_;
  std::unique_ptr<Tree> tree_;
  std::string notices_;
};

TEST_F(Groups, WhatWasSyncedIsNotedInTheStoreAfterAWhileIfThereIsATimer) {
  ASSERT_EQ(unpack(1), 0);
  ASSERT_TRUE(tree_->sync());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(held_->notes(), 0);
  ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 10}));
  ASSERT_EQ(unpack(2), 0);
  ASSERT_TRUE(tree_->sync());
  for (int i = 0; i < 3000 && held_->notes() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GT(held_->notes(), 0);
}

// Which is what the background thread hears of first is the machine's choice.
TEST_F(Groups, ASyncRightAfterATimerIsSetIsNotedAsWell) {
  for (int round = 1; round <= 30; ++round) {
    ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 0}));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const int before = held_->notes();
    ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 10}));
    ASSERT_TRUE(tree_->sync());
    for (int i = 0; i < 1000 && held_->notes() == before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_GT(held_->notes(), before) << "in round " << round;
  }
}

// Else all of it would be waited for at once, by whoever fills a memtable.
TEST_F(Groups, WhatWasWrittenInABurstIsMadeDurableBeforeItsTime) {
  const std::string data(128 * KiB, 'x');
  const auto made = tree_->make(kRootIno, "f", {.mode = S_IFREG | 0600}, Wait::yes);
  ASSERT_TRUE(made);
  std::uint64_t written = 0;
  const auto write = [&](std::uint64_t bytes) {
    for (const std::uint64_t end = written + bytes; written < end; written += data.size()) {
      ASSERT_TRUE(tree_->write(made->ino, ByteOffset{written}, as_bytes(data), Wait::yes));
    }
  };
  write(20 * MiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(held_->syncs(), 0) << "without a timer nothing is";
  ASSERT_TRUE(tree_->sync());
  ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 3'600'000}));
  const int before = held_->syncs();
  write(12 * MiB);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(held_->syncs(), before);
  write(8 * MiB);
  for (int i = 0; i < 3000 && held_->syncs() == before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(held_->syncs(), before + 1);
}

TEST_F(Groups, OperationsGoOnWhileAGroupIsCommittedUntilTheNextIsLarge) {
  held_->hold();
  int made = 0, last = 0;
  // The group of 256 KiB that is being committed, and one of four times as much.
  while ((last = unpack(made)) == 0) ++made;
  EXPECT_EQ(last, EAGAIN);
  EXPECT_GT(made * 8, 1200);
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
  EXPECT_EQ(code(tree_->read(first, ByteOffset{0}, to, Wait::no)), EAGAIN);
  EXPECT_EQ(code(tree_->readdir(kRootIno, 0, true, [](const DirEntry&) { return true; }, Wait::no)), EAGAIN);
  held_->release();
  ASSERT_TRUE(tree_->unlink(kRootIno, name(1), Wait::yes));
  EXPECT_TRUE(tree_->read(first, ByteOffset{0}, to, Wait::yes).has_value());
  EXPECT_EQ(data, std::string(8192, 'a'));
  ASSERT_TRUE(tree_->sync().has_value());
  stop();
  start();
  for (int i = 0; i < made; ++i) {
    const Ino ino = [&] {
      const auto found = tree_->lookup(kRootIno, name(i), Wait::yes);
      return found && *found ? (*found)->ino : Ino{};
    }();
    EXPECT_EQ(ino == Ino{}, i == 1) << name(i);
    if (ino == Ino{}) continue;
    ASSERT_TRUE(tree_->read(ino, ByteOffset{0}, to, Wait::yes).has_value());
    EXPECT_EQ(data, std::string(8192, static_cast<char>('a' + i % 26))) << name(i);
  }
  stop();
}

// Or the next sync commits the records of all files that a walk has read, and everybody waits for that.
TEST_F(Groups, AccessTimesOfAWalkAreNotGatheredInOneGroup) {
  constexpr int kFiles = 2600;  // more than groups of which one waits for the other may hold
  std::vector<Ino> files;
  for (int i = 0; i < kFiles; ++i) {
    const auto made = tree_->make(kRootIno, name(i), {.mode = S_IFREG | 0600}, Wait::yes);
    ASSERT_TRUE(made.has_value());
    files.push_back(made->ino);
  }
  ASSERT_TRUE(tree_->sync().has_value());
  const int before = held_->commits();
  for (const Ino file : files) ASSERT_TRUE(tree_->read(file, ByteOffset{0}, {}, Wait::yes).has_value());
  for (int i = 0; i < 3000 && held_->commits() == before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GT(held_->commits(), before);
}

TEST_F(Groups, WhatIsChangedWhileItsRecordIsBeingCommittedIsNotLost) {
  held_->hold();
  int made = 0;
  while (made * 8 < 300) ASSERT_EQ(unpack(made++), 0);  // the first group is on its way
  ASSERT_TRUE(held_->await_waiting());
  // Not in use any more, and yet neither the commit that is under way nor a lookup may lose what comes now.
  const Ino first = look(name(0)).ino;
  tree_->forget(first, 2);
  EXPECT_EQ(code(at_once([&](Wait w) { return tree_->setattr(look(name(0)).ino, {.uid = 77}, w); })), 0);
  tree_->forget(first, 1);
  EXPECT_EQ(code(at_once([&](Wait w) { return tree_->unlink(kRootIno, name(1), w); })), 0);
  EXPECT_EQ(look(name(1)).ino, Ino{}) << "although the group under way makes it";
  EXPECT_EQ(unpack(1), 0) << "and it can be made again";
  const Ino again = look(name(1)).ino;
  held_->release();
  ASSERT_TRUE(tree_->sync().has_value());
  EXPECT_EQ(look(name(0)).uid, 77u);
  stop();
  start();
  EXPECT_EQ((*tree_->lookup(kRootIno, name(0), Wait::yes))->uid, 77u);
  EXPECT_EQ((*tree_->lookup(kRootIno, name(1), Wait::yes))->ino, again);
  stop();
}

TEST_F(Groups, ACommitThatFailsInTheBackgroundMakesTheTreeReadOnly) {
  ASSERT_EQ(unpack(0), 0);
  ASSERT_TRUE(tree_->sync().has_value());
  held_->hold();
  for (int i = 1; i < 60; ++i) ASSERT_EQ(unpack(i), 0);
  ASSERT_TRUE(held_->await_waiting());
  held_->release(EIO);
  EXPECT_EQ(code(tree_->sync()), EIO);
  EXPECT_EQ(code(tree_->make(kRootIno, "more", {.mode = S_IFREG}, Wait::yes)), EROFS);
  EXPECT_EQ(code(tree_->sync()), EIO) << "and it stays so";
  EXPECT_NE(notices_.find("read-only from now on"), std::string::npos) << notices_;
  EXPECT_EQ(notices_.find("read-only"), notices_.rfind("read-only")) << "said once: " << notices_;
  // What had been committed before can be read.
  std::string data(8192, '?');
  const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
  const auto found = tree_->lookup(kRootIno, name(0), Wait::yes);
  ASSERT_TRUE(found.has_value() && found->has_value());
  EXPECT_TRUE(tree_->read((*found)->ino, ByteOffset{0}, to, Wait::yes).has_value());
  EXPECT_EQ(data, std::string(8192, 'a'));
  tree_.reset();
}

// What all threads of this process have used.
double processor_seconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// Programs write a file under another name and rename it at once. That must not end each such group with it.
TEST_F(Groups, ARenameOfWhatWasJustWrittenWaitsForNoCommit) {
  ASSERT_EQ(unpack(0), 0);
  ASSERT_TRUE(tree_->sync());
  const int commits = held_->commits();
  std::vector<std::string> contents;
  const auto write = [&](Ino ino, std::uint64_t offset, const std::string& data) {
    ASSERT_EQ(code(at_once([&](Wait w) { return tree_->write(ino, ByteOffset{offset}, as_bytes(data), w); })), 0);
    std::string& content = contents.back();
    content.resize(std::max<std::size_t>(content.size(), offset + data.size()));
    content.replace(offset, data.size(), data);
  };
  const auto finish = [&](Ino ino, int error) {
    const std::string to = fmt::format("to {}", contents.size() - 1);
    const auto rename = [&](Wait w) { return tree_->rename(kRootIno, "temporary", kRootIno, to, 0, w); };
    EXPECT_EQ(code(error == 0 ? at_once(rename) : rename(Wait::no)), error) << to;
    if (error != 0) {
      EXPECT_EQ(code(rename(Wait::yes)), 0) << to;
    }
    tree_->forget(ino, 1);
  };
  const auto make = [&] {
    contents.emplace_back();
    const auto made = at_once([&](Wait w) { return tree_->make(kRootIno, "temporary", {.mode = S_IFREG | 0600}, w); });
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
    EXPECT_EQ(code(at_once([&](Wait w) { return tree_->link(ino, kRootIno, to, w); })), 0);
    EXPECT_EQ(code(at_once([&](Wait w) { return tree_->unlink(kRootIno, "temporary", w); })), 0);
    tree_->forget(ino, 2);
  }
  {
    const Ino ino = make();
    write(ino, 0, std::string(8192, 'a'));
    write(ino, 100, "in the middle");
    finish(ino, 0);
  }
  const auto truncate = [&](Ino ino, std::uint64_t size) {
    ASSERT_EQ(code(at_once([&](Wait w) { return tree_->setattr(ino, {.size = size}, w); })), 0);
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
    ASSERT_TRUE(tree_->sync());
    write(ino, 100, "in the middle");
    finish(ino, EAGAIN);
  }
  {
    const Ino ino = make();  // a hole in it
    write(ino, 0, std::string(12'000, 'a'));
    ASSERT_TRUE(tree_->fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{4096}, ByteCount{5000}, Wait::yes));
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
  ASSERT_TRUE(tree_->sync());
  held_->hold();
  const Ino moved = make();
  write(moved, 0, std::string(9000, 'm'));
  for (int i = 1; i < 45; ++i) ASSERT_EQ(unpack(i), 0);  // more than one group takes
  ASSERT_TRUE(held_->await_waiting());
  finish(moved, 0);
  held_->release();
  const auto expect_all = [&] {
    for (std::size_t i = 0; i < contents.size(); ++i) {
      const auto found = tree_->lookup(kRootIno, fmt::format("to {}", i), Wait::yes);
      ASSERT_TRUE(found.has_value() && *found);
      std::string data((*found)->size, '?');
      const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
      EXPECT_EQ(code(tree_->read((*found)->ino, ByteOffset{0}, to, Wait::yes)), 0);
      EXPECT_TRUE(data == contents[i]) << i;
      tree_->forget((*found)->ino, 1);
    }
  };
  expect_all();
  stop();
  start();
  expect_all();
}

// Nothing of what a new file was before its group is committed is written.
TEST_F(Groups, ANewFileIsWrittenOnceWhateverBecomesOfIt) {
  constexpr std::size_t kSize = 60'000;
  const auto make = [&](const std::string& name) {
    const auto made = tree_->make(kRootIno, name, {.mode = S_IFREG | 0600}, Wait::yes);
    EXPECT_TRUE(made.has_value());
    EXPECT_EQ(code(tree_->write(made->ino, ByteOffset{0}, as_bytes(std::string(kSize, 'a')), Wait::yes)), 0);
    return made->ino;
  };
  const auto committed = [&](const auto& work) {
    EXPECT_EQ(code(tree_->sync()), 0);
    const std::size_t before = held_->bytes();
    work();
    EXPECT_EQ(code(tree_->sync()), 0);
    return held_->bytes() - before;
  };
  EXPECT_LT(committed([&] {
              const Ino ino = make("temporary");
              EXPECT_EQ(code(tree_->write(ino, ByteOffset{5000}, as_bytes(std::string(20'000, 'b')), Wait::yes)), 0);
              EXPECT_EQ(code(tree_->rename(kRootIno, "temporary", kRootIno, "first", 0, Wait::yes)), 0);
              EXPECT_EQ(code(tree_->rename(kRootIno, "first", kRootIno, "second", 0, Wait::yes)), 0);
              tree_->forget(ino, 1);
            }),
            kSize + 4096);
  EXPECT_LT(committed([&] {
              const Ino ino = make("short-lived");
              EXPECT_EQ(code(tree_->unlink(kRootIno, "short-lived", Wait::yes)), 0);
              tree_->forget(ino, 1);
            }),
            2048u);
  EXPECT_LT(committed([&] {
              const Ino ino = make("emptied");
              EXPECT_TRUE(tree_->setattr(ino, {.size = 0u}, Wait::yes));
              tree_->forget(ino, 1);
            }),
            2048u);
  // Two that change places, of which one is in the store: to read it takes a commit.
  const Ino old = make("old");
  ASSERT_TRUE(tree_->sync());
  EXPECT_EQ(code(tree_->write(old, ByteOffset{0}, as_bytes("x"), Wait::yes)), 0);
  const Ino young = make("young");
  EXPECT_EQ(code(tree_->rename(kRootIno, "young", kRootIno, "old", RENAME_EXCHANGE, Wait::yes)), 0);
  for (const auto& [ino, first] : {std::pair{old, 'x'}, std::pair{young, 'a'}}) {
    std::string data(kSize, '?');
    EXPECT_EQ(code(tree_->read(ino, ByteOffset{0}, {reinterpret_cast<std::byte*>(data.data()), data.size()}, Wait::yes)), 0);
    EXPECT_EQ(data, first + std::string(kSize - 1, 'a'));
    tree_->forget(ino, 1);
  }
}

class GroupsAfterAFailure : public Groups {
 protected:
  void read_first(int error = 0) {
    std::string data(8192, '?');
    const MutableBytes to{reinterpret_cast<std::byte*>(data.data()), data.size()};
    EXPECT_EQ(code(tree_->read(look(name(0)).ino, ByteOffset{0}, to, Wait::yes)), error);
    EXPECT_EQ(data, std::string(8192, 'a'));
  }
  // What should have been synced by now stays for ever as it is.
  void expect_rest() {
    EXPECT_TRUE(tree_->read_only());
    read_first();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_LT(processor_seconds() - before, 0.2);
  }
  // Nobody has to wait for a commit that never comes.
  void expect_gone(Ino ino, std::uint64_t lookups) {
    tree_->forget(ino, lookups);
    EXPECT_EQ(code(tree_->getattr(ino, Wait::yes)), ESTALE);
  }
};

TEST_F(GroupsAfterAFailure, OfACommitTheBackgroundThreadRests) {
  ASSERT_EQ(unpack(0), 0);
  const Ino first = look(name(0)).ino;
  ASSERT_TRUE(tree_->sync());
  held_->hold();
  for (int i = 1; i < 60; ++i) ASSERT_EQ(unpack(i), 0);
  const Ino sealed = look(name(1)).ino, open = look(name(59)).ino;
  for (const Ino ino : {sealed, open}) tree_->forget(ino, 2);
  ASSERT_TRUE(held_->await_waiting());
  ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 50}));
  held_->release(EIO);
  for (int i = 0; i < 3000 && !tree_->read_only(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
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
  ASSERT_TRUE(tree_->sync());
  ASSERT_TRUE(tree_->unlink(kRootIno, name(1), Wait::yes));
  held_->fail_syncs(EIO);
  EXPECT_EQ(code(tree_->sync()), EIO);
  ASSERT_TRUE(tree_->reconfigure({.sync_interval_ms = 50}));
  expect_gone(removed, 2);
  expect_rest();
  expect_gone(first, 3);
}

}  // namespace
}  // namespace lsmfs::test
