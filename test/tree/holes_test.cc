#include <gtest/gtest.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <future>

#include "kv/store.h"
#include "kv/store_decorator.h"
#include "tree/allocated_bytes.h"
#include "tree/harness.h"
#include "until.h"

namespace lsmfs::test::holes_test {
namespace {

constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

class Holes : public testing::Test {
 protected:
  int allocate(Ino ino, int mode, std::uint64_t offset, std::uint64_t length) {
    return code(both_ways(
        [&](Wait w) { return h.tree().fallocate(ino, mode, ByteOffset{offset}, ByteCount{length}, w); }));
  }
  // Where the next data or hole is; -errno when there is none.
  std::int64_t seek(Ino ino, std::uint64_t offset, int whence) {
    const auto found = both_ways([&](Wait w) { return h.tree().seek(ino, ByteOffset{offset}, whence, w); });
    return found ? static_cast<std::int64_t>(found->v) : -found.error().code;
  }
  std::uint64_t blocks(Ino ino) { return h.attr(ino).blocks / 8; }

  Harness h;
};

TEST_F(Holes, PunchedOnesTakeNoRowsAndReadAsZeros) {
  std::string data(10 * kBlockSize + 100, 'd');
  const Ino f = h.create(kRootIno, "f", data);
  EXPECT_EQ(blocks(f), 11u);
  ASSERT_EQ(allocate(f, kPunch, 2 * kBlockSize - 10, 3 * kBlockSize), 0);  // parts of two blocks, and two whole ones
  data.replace(2 * kBlockSize - 10, 3 * kBlockSize, 3 * kBlockSize, '\0');
  EXPECT_EQ(h.read(f), data);
  EXPECT_EQ(blocks(f), 9u);
  ASSERT_EQ(allocate(f, kPunch, 10 * kBlockSize, 1'000'000), 0);  // the last one, and past the end
  data.replace(10 * kBlockSize, 100, 100, '\0');
  EXPECT_EQ(blocks(f), 8u);
  ASSERT_EQ(allocate(f, kPunch, 2 * kBlockSize, kBlockSize), 0) << "where a hole is already";
  EXPECT_EQ(blocks(f), 8u);
  ASSERT_EQ(allocate(f, kPunch, 2 * kBlockSize + 5, 10), 0);
  EXPECT_EQ(blocks(f), 8u) << "zeros in a hole make no row";
  EXPECT_EQ(h.attr(f).size, data.size());
  h.remount();
  EXPECT_EQ(h.read_path("f"), data);
  EXPECT_EQ(h.rows(Family::blocks), 8u);
}

TEST_F(Holes, OfManyBlocksGoAsARange) {
  const Ino f = h.create(kRootIno, "f");
  for (std::uint64_t i = 0; i < 12; ++i) h.write(f, i * MiB, std::string(MiB, static_cast<char>('a' + i)));
  ASSERT_EQ(allocate(f, kPunch, MiB, 10 * MiB), 0);
  EXPECT_EQ(blocks(f), 2 * MiB / kBlockSize);
  EXPECT_EQ(h.read(f, 11 * MiB, 1), "l");
  EXPECT_EQ(h.read(f, 11 * MiB - 1, 1), std::string(1, '\0'));
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 2 * MiB / kBlockSize);
}

TEST_F(Holes, ZeroRangeAndAllocationChangeTheSizeUnlessTold) {
  const Ino f = h.create(kRootIno, "f", "0123456789");
  ASSERT_EQ(allocate(f, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 5, 100), 0);
  EXPECT_EQ(h.read(f), std::string("01234\0\0\0\0\0", 10));
  ASSERT_EQ(allocate(f, FALLOC_FL_ZERO_RANGE, 2, 100), 0);
  EXPECT_EQ(h.attr(f).size, 102u);
  EXPECT_EQ(h.read(f), "01" + std::string(100, '\0'));
  ASSERT_EQ(allocate(f, FALLOC_FL_KEEP_SIZE, 0, 1'000'000), 0);
  EXPECT_EQ(h.attr(f).size, 102u);
  ASSERT_EQ(allocate(f, 0, 10, 1'000'000), 0);
  EXPECT_EQ(h.attr(f).size, 1'000'010u);
  EXPECT_EQ(allocate(f, 0, 0, 1024 * GiB), ENOSPC) << "what has no room";
  EXPECT_EQ(allocate(f, 0, kFileSizeMax, 1), EFBIG);
  EXPECT_EQ(allocate(f, FALLOC_FL_COLLAPSE_RANGE, 0, kBlockSize), EOPNOTSUPP);
  EXPECT_EQ(allocate(f, FALLOC_FL_PUNCH_HOLE, 0, kBlockSize), EOPNOTSUPP) << "only with KEEP_SIZE";
  EXPECT_EQ(allocate(h.mkdir(kRootIno, "d"), 0, 0, 1), EISDIR);
  EXPECT_EQ(allocate(h.make(kRootIno, "p", S_IFIFO | 0600), 0, 0, 1), ENODEV);
}

TEST_F(Holes, AreFound) {
  const Ino f = h.create(kRootIno, "f");
  h.write(f, 3 * kBlockSize + 7, "x");
  h.write(f, 4 * kBlockSize, "y");
  h.write(f, 9 * kBlockSize, "z");
  EXPECT_EQ(seek(f, 0, SEEK_DATA), 3 * kBlockSize);
  EXPECT_EQ(seek(f, 0, SEEK_HOLE), 0);
  EXPECT_EQ(seek(f, 3 * kBlockSize + 100, SEEK_DATA), 3 * kBlockSize + 100);
  EXPECT_EQ(seek(f, 3 * kBlockSize, SEEK_HOLE), 5 * kBlockSize);
  EXPECT_EQ(seek(f, 5 * kBlockSize, SEEK_DATA), 9 * kBlockSize);
  EXPECT_EQ(seek(f, 9 * kBlockSize, SEEK_HOLE), 9 * kBlockSize + 1) << "the end counts as one";
  EXPECT_EQ(seek(f, 9 * kBlockSize + 1, SEEK_DATA), -ENXIO);
  EXPECT_EQ(seek(f, 9 * kBlockSize + 1, SEEK_HOLE), -ENXIO);
  ASSERT_TRUE(h.tree().setattr(f, {.size = 20 * kBlockSize}, Wait::yes));
  EXPECT_EQ(seek(f, 9 * kBlockSize, SEEK_HOLE), 10 * kBlockSize);
  EXPECT_EQ(seek(f, 10 * kBlockSize, SEEK_DATA), -ENXIO);
  const Ino dense = h.create(kRootIno, "dense", "data");
  EXPECT_EQ(seek(dense, 1, SEEK_DATA), 1);
  EXPECT_EQ(seek(dense, 1, SEEK_HOLE), 4);
  const Ino empty = h.create(kRootIno, "empty");
  EXPECT_EQ(seek(empty, 0, SEEK_DATA), -ENXIO);
}

// Does something else first when it is asked for a cursor over file data.
class InterruptedStore : public StoreDecorator {
 public:
  using Interruption = std::function<void()>;
  InterruptedStore(std::unique_ptr<Store> inner, Interruption& next) : StoreDecorator(std::move(inner)), next_(next) {}
  std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) override {
    if (family == Family::blocks && next_) std::exchange(next_, {})();
    return inner().cursor(family, options);
  }

 private:
  Interruption& next_;
};

// The rows of a small file move with it.
TEST_F(Holes, AreNotSeenWhereARenameHasJustTakenDataAway) {
  InterruptedStore::Interruption interruption;
  h.between.store = [&](std::unique_ptr<Store> store) { return std::make_unique<InterruptedStore>(std::move(store), interruption); };
  h.remount();
  h.write(h.create(kRootIno, "0"), 3 * kBlockSize, std::string(2 * kBlockSize, 'x'));
  h.remount();  // now it has to be looked at
  const Ino f = h.walk("0");
  int name = 0;
  const auto seek_interrupted = [&](std::uint64_t offset, int whence) {
    interruption = [&] {
      const std::string from = std::to_string(name++);
      EXPECT_TRUE(h.tree().rename(kRootIno, from, kRootIno, std::to_string(name), 0, Wait::yes));
      EXPECT_TRUE(h.tree().sync());
    };
    return seek(f, offset, whence);
  };
  EXPECT_EQ(seek_interrupted(0, SEEK_DATA), 3 * kBlockSize);
  EXPECT_EQ(seek_interrupted(3 * kBlockSize, SEEK_HOLE), 5 * kBlockSize);
  EXPECT_EQ(seek_interrupted(4 * kBlockSize, SEEK_DATA), 4 * kBlockSize);
  EXPECT_EQ(name, 3);
  h.unmount();
}

// One that has no more room than it is told.
class FullStore : public StoreDecorator {
 public:
  FullStore(std::unique_ptr<Store> inner, const std::uint64_t& room) : StoreDecorator(std::move(inner)), room_(room) {}
  Room room() const override {
    const Room room = StoreDecorator::room();
    return {ByteCount{std::min(room_, room.v)}, room.rows};
  }

 private:
  const std::uint64_t& room_;
};

TEST_F(Holes, AllocationOfWhatIsThereNeedsNoRoom) {
  std::uint64_t room = UINT64_MAX;
  h.between.store = [&](std::unique_ptr<Store> store) { return std::make_unique<FullStore>(std::move(store), room); };
  h.remount();
  const Ino f = h.create(kRootIno, "f", std::string(MiB, 'x'));
  const Ino zeroed = h.create(kRootIno, "zeroed", std::string(MiB, 'x')), sparse = h.create(kRootIno, "sparse");
  h.write(sparse, MiB - 1, "x");
  ASSERT_TRUE(h.tree().sync());
  room = 0;
  EXPECT_EQ(allocate(f, 0, 0, MiB), 0);
  EXPECT_EQ(allocate(f, FALLOC_FL_KEEP_SIZE, 100, 100), 0);
  EXPECT_EQ(allocate(f, 0, 0, MiB + 1), ENOSPC);
  EXPECT_EQ(allocate(sparse, 0, 0, MiB), ENOSPC);
  EXPECT_EQ(allocate(sparse, kPunch, MiB - 5000, 4000), 0) << "which gives some back";
  EXPECT_EQ(allocate(zeroed, FALLOC_FL_ZERO_RANGE, 5000, 100'000), 0) << "likewise";
  room = 100 * KiB;
  EXPECT_EQ(allocate(f, 0, 0, MiB + 50 * KiB), 0) << "only what comes to it";
  EXPECT_EQ(h.attr(f).size, MiB + 50 * KiB);
  EXPECT_EQ(allocate(f, FALLOC_FL_KEEP_SIZE, 2 * MiB, 200 * KiB), ENOSPC);
  h.unmount();
}

// Tells of each row of file data that a cursor comes to.
class WatchedStore : public StoreDecorator {
 public:
  using Watcher = std::function<void()>;
  WatchedStore(std::unique_ptr<Store> inner, const Watcher& watcher) : StoreDecorator(std::move(inner)), watcher_(watcher) {}
  std::unique_ptr<lsmfs::Cursor> cursor(Family family, const CursorOptions& options) override {
    auto cursor = inner().cursor(family, options);
    if (family == Family::names) return cursor;
    return std::make_unique<Cursor>(std::move(cursor), watcher_);
  }

 private:
  class Cursor : public lsmfs::Cursor {
   public:
    Cursor(std::unique_ptr<lsmfs::Cursor> inner, const Watcher& watcher) : inner_(std::move(inner)), watcher_(watcher) {}
    void seek(std::string_view key) override {
      inner_->seek(key);
      tell();
    }
    void next() override {
      inner_->next();
      tell();
    }
    bool valid() const override { return inner_->valid(); }
    std::string_view key() const override { return inner_->key(); }
    std::string_view value() const override { return inner_->value(); }
    Result<void> status() const override { return inner_->status(); }

   private:
    void tell() {
      if (inner_->valid() && watcher_) watcher_();
    }
    const std::unique_ptr<lsmfs::Cursor> inner_;
    const Watcher& watcher_;
  };
  const Watcher& watcher_;
};

// Of a file with a row in every second block, all of which are in tables.
class HolesInSparseFiles : public Holes {
 protected:
  static constexpr std::uint64_t kRows = 20'000, kStep = 2 * kBlockSize;

  HolesInSparseFiles() {
    h.between.store = [this](std::unique_ptr<Store> store) {
      rocks = static_cast<RocksStore*>(store.get());
      return std::make_unique<WatchedStore>(std::move(store), watcher);
    };
    h.remount();
    file = h.create(kRootIno, "f");
    for (std::uint64_t i = 0; i < kRows; ++i) h.write(file, i * kStep, "data");
    EXPECT_TRUE(h.tree().sync());
    EXPECT_TRUE(h.store().flush());
  }
  // The tree does not know the file's rows any more.
  void forget() {
    h.remount();
    file = h.walk("f");
  }
  int truncate(std::uint64_t size) {
    return code(both_ways([&](Wait w) { return h.tree().setattr(file, {.size = size}, w); }));
  }
  // Does each of what takes rows of the file away: thousands, and then a part of the first row that stays.
  void take_away(const std::function<void()>& before_each) {
    before_each();
    EXPECT_EQ(allocate(file, kPunch, 2, 5000 * kStep), 0);
    before_each();
    EXPECT_EQ(allocate(file, FALLOC_FL_ZERO_RANGE, 5000 * kStep + 2, 5000 * kStep), 0);
    before_each();
    EXPECT_EQ(truncate(15'000 * kStep + 2), 0);
  }
  // Whether the tree has time for others while this thread does not go on. Its own thread may have the mutex for a moment.
  bool others_are_served() {
    const auto is_served = [this] { return until([this] { return code(h.tree().getattr(file, Wait::no)) != EAGAIN; }); };
    return std::async(std::launch::async, is_served).get();
  }
  void expect_rows(std::uint64_t rows) {
    watcher = {};
    EXPECT_EQ(blocks(file), rows);
    EXPECT_EQ(h.rows(Family::blocks), rows);
    EXPECT_EQ(h.check(), "");
  }

  WatchedStore::Watcher watcher;
  RocksStore* rocks = nullptr;  // under that one
  Ino file;
};

TEST_F(HolesInSparseFiles, AreMadeWhileOthersAreServed) {
  forget();
  int seen = 0;
  bool served = true;
  watcher = [&] {
    if (seen++ % 1000 == 0) served = served && others_are_served();
  };
  take_away([] {});
  EXPECT_GE(seen, 15'000) << "nobody looked at the rows";
  EXPECT_TRUE(served);
  expect_rows(5000 + 3);
  EXPECT_EQ(h.read(file, 0, 5), std::string("da\0\0\0", 5));
  EXPECT_EQ(h.read(file, 5000 * kStep, 5), std::string("\0\0\0\0\0", 5));
  EXPECT_EQ(h.read(file, 10'000 * kStep, 5), std::string("\0\0ta\0", 5));
  EXPECT_EQ(h.read(file, 15'000 * kStep, 5), "da");
}

TEST_F(HolesInSparseFiles, TakeLittleMemory) {
  forget();
  std::size_t seen = 0, first = 0, most = 0;
  watcher = [&] {
    if (seen++ % 1000 != 0) return;
    const std::size_t now = allocated_bytes();
    if (first == 0) first = now;
    most = std::max(most, now - std::min(now, first));
  };
  take_away([&] {
    // What was taken away before is merged away in other threads, which need memory, too.
    EXPECT_TRUE(h.tree().sync());
    EXPECT_TRUE(until([this] { return rocks->idle(); }));
    first = 0;
  });
  EXPECT_GE(seen, 15'000u) << "nobody looked at the rows";
  EXPECT_LT(most, 256 * KiB);
  expect_rows(5000 + 3);
}

TEST_F(HolesInSparseFiles, TakeRowsAlongThatWereWrittenMeanwhile) {
  forget();
  std::uint64_t place = 0;
  watcher = [&] {
    if (place == 0) return;
    const std::uint64_t at = std::exchange(place, 0);
    ASSERT_TRUE(others_are_served()) << "a write would wait for ever";
    std::async(std::launch::async, [&] { EXPECT_TRUE(h.tree().write(file, ByteOffset{at}, as_bytes("new"), Wait::yes)); }).get();
  };
  int step = 0;
  take_away([&] {
    const std::uint64_t rows_before[] = {10, 5010, 15'010};
    place = rows_before[step++] * kStep + kBlockSize;  // between two rows
  });
  EXPECT_EQ(place, 0u) << "nothing was written";
  expect_rows(5000 + 3);
}

TEST_F(HolesInSparseFiles, NeedNoLookWhenAllGoes) {
  forget();
  int seen = 0;
  watcher = [&] { ++seen; };
  ASSERT_EQ(allocate(file, kPunch, 0, kRows * kStep), 0);
  EXPECT_EQ(seen, 0);
  expect_rows(0);
  for (std::uint64_t i = 0; i < 2000; ++i) h.write(file, i * kStep, "data");
  expect_rows(2000);
  watcher = [&] { ++seen; };
  ASSERT_EQ(truncate(0), 0);
  EXPECT_EQ(seen, 0);
  expect_rows(0);
}

TEST_F(HolesInSparseFiles, NeedNoLookWhereItsRowsAreKnown) {
  int seen = 0;
  watcher = [&] { ++seen; };
  take_away([] {});
  h.write(file, 2 * kStep, std::string(3 * kStep, 'x'));  // in the hole
  EXPECT_EQ(seek(file, 0, SEEK_HOLE), static_cast<std::int64_t>(kBlockSize));
  EXPECT_EQ(seek(file, kBlockSize, SEEK_DATA), static_cast<std::int64_t>(2 * kStep));
  EXPECT_EQ(seek(file, 2 * kStep + 1, SEEK_HOLE), static_cast<std::int64_t>(5 * kStep));
  EXPECT_EQ(seek(file, 5 * kStep + 1, SEEK_DATA), static_cast<std::int64_t>(5000 * kStep));
  EXPECT_EQ(seen, 0);
  expect_rows(5000 + 3 + 6);
}

// As of a log that is cut while its writer goes on where it was, and of a queue whose head is punched out.
TEST_F(Holes, TakenOutAgainAndAgainNeedNoLookEither) {
  int seen = 0;
  const WatchedStore::Watcher watcher = [&] { ++seen; };
  h.between.store = [&](std::unique_ptr<Store> store) { return std::make_unique<WatchedStore>(std::move(store), watcher); };
  h.remount();
  const Ino log = h.create(kRootIno, "log"), queue = h.create(kRootIno, "queue");
  const std::string data(25 * kBlockSize, 'x');
  for (std::uint64_t round = 0; round < 100; ++round) {
    h.write(log, round * data.size(), data);
    h.write(queue, round * data.size(), data);
    EXPECT_EQ(blocks(log), 25u);
    EXPECT_EQ(blocks(queue), round == 0 ? 25u : 50u);
    ASSERT_TRUE(h.tree().setattr(log, {.size = 0}, Wait::yes));
    if (round > 0) {
      ASSERT_EQ(allocate(queue, kPunch, 0, round * data.size()), 0);
    }
    if (round % 10 == 0) {
      ASSERT_TRUE(h.tree().sync());
    }
  }
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(h.check(), "");
  h.unmount();
}

// An unlinked one takes a row away for each that it has, and not all between the first and the last.
TEST_F(Holes, AFewRowsFarApartAreErasedOneByOne) {
  const Ino f = h.create(kRootIno, "f");
  for (std::uint64_t i = 0; i < 10; ++i) h.write(f, i * GiB, "x");
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::blocks), 10u);
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  h.tree().forget(f, 1);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::blocks), 0u);
  EXPECT_EQ(h.check(), "");
}

}  // namespace
}  // namespace lsmfs::test::holes_test
