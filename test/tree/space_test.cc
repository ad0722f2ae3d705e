#include <gtest/gtest.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>

#include <random>
#include <thread>

#include "clock.h"
#include "gate.h"
#include "kv/store.h"
#include "kv/store_decorator.h"
#include "seed.h"
#include "tree/harness.h"
#include "until.h"

namespace lsmfs::test::space_test {
namespace {

std::string noise(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string s(n, '\0');
  for (std::size_t i = 0; i + 8 <= n; i += 8) {
    const std::uint64_t v = random();
    std::memcpy(s.data() + i, &v, 8);
  }
  return s;
}

TEST(Space, AFullTreeRefusesWritesAndTakesRemovals) {
  Harness h;
  int written = 0, error = 0;
  for (; written < 1000 && !error; ++written) {
    const auto made = h.tree().make(kRootIno, fmt::format("f{:04}", written), {.mode = S_IFREG | 0644}, Wait::yes);
    error = code(made);
    if (error) break;
    error = code(h.tree().write(made->ino, ByteOffset{0}, as_bytes(noise(1 * MiB, static_cast<std::uint64_t>(written))), Wait::yes));
    h.tree().forget(made->ino, 1);
  }
  EXPECT_EQ(error, ENOSPC);
  EXPECT_GT(written, 40);
  for (int i = 0; i < written; ++i) {
    ASSERT_TRUE(h.tree().unlink(kRootIno, fmt::format("f{:04}", i), Wait::yes)) << i;
    // Renames and times work as well.
    if (i + 1 < written) {
      const Ino next = h.walk(fmt::format("f{:04}", i + 1));
      ASSERT_TRUE(h.tree().setattr(next, {.mtime = Time{1, 1}}, Wait::yes));
      h.tree().forget(next, 1);
    }
  }
  h.remount();
  EXPECT_EQ(h.rows(Family::blocks), 0u);
}

// Of what cannot be compressed, in path order or not.
TEST(Space, AsMuchFitsAsItSays) {
  for (const bool in_order : {true, false}) {
    SCOPED_TRACE(in_order);
    Harness h(ByteCount{256 * MiB});
    const std::uint64_t free = h.tree().space(Wait::yes)->free.v;
    std::uint64_t written = 0;
    constexpr std::size_t kSize = 512 * KiB;
    for (std::uint64_t n = 0;; ++n) {
      const std::string name = fmt::format("{:04}", in_order ? n : n * 7919 % 10'000);
      const auto made = h.tree().make(kRootIno, name, {.mode = S_IFREG | 0644}, Wait::yes);
      ASSERT_EQ(code(made), 0);
      const int error = code(h.tree().write(made->ino, ByteOffset{0}, as_bytes(noise(kSize, n)), Wait::yes));
      if (error) {
        ASSERT_EQ(error, ENOSPC);
        break;
      }
      written += kSize;
    }
    EXPECT_NEAR(static_cast<double>(written), static_cast<double>(free), static_cast<double>(free) / 50);
    ASSERT_TRUE(h.tree().sync());
    EXPECT_LE(h.tree().space(Wait::yes)->free.v, kSize + free / 20);
    EXPECT_EQ(h.check(), "");
  }
}

// On one volume, where files of all kinds come and go.
class SaidToFit : public testing::Test {
 protected:
  std::uint64_t free() { return h.tree().space(Wait::yes)->free.v; }
  static std::string name(std::uint64_t n) { return fmt::format("{}", n); }

  void make_files(std::size_t size, bool compressible) {
    files_ = std::clamp<std::uint64_t>(free() * 3 / 4 / size, 1, 1500);
    for (std::uint64_t n = 0; n < files_; ++n) {
      h.create(kRootIno, name(n));
      write(name(n), size, compressible);
    }
  }
  void write_over(std::size_t size, bool compressible) {
    for (std::uint64_t n = 0; n < files_; ++n) write(name(n), size, compressible);
  }
  void cut(std::uint64_t size) {
    for (std::uint64_t n = 0; n < files_; ++n) ASSERT_EQ(code(h.tree().setattr(h.walk(name(n)), {.size = size}, Wait::yes)), 0);
  }
  void remove(const std::string& name) {
    const Ino ino = h.walk(name);
    ASSERT_EQ(code(h.tree().unlink(kRootIno, name, Wait::yes)), 0);
    h.tree().forget(ino, 1'000'000);
  }
  void remove_every(std::uint64_t step) {
    for (std::uint64_t n = 0; n < files_; n += step) {
      if (h.walk(name(n)) != Ino{}) remove(name(n));
    }
  }
  // Rows in memory count as such that do not compress.
  void settle() {
    ASSERT_TRUE(h.tree().sync());
    ASSERT_TRUE(h.store().flush());
    const auto& rocks = dynamic_cast<const RocksStore&>(h.store());
    ASSERT_TRUE(until([&] { return rocks.idle(); }));
  }
  // Which rows of tables are obsolete is an estimate, until they are merged. So more may fit than is said, but not less.
  void expect_to_fit() {
    settle();
    const std::uint64_t said = free(), total = h.tree().space(Wait::yes)->total.v;
    const Ino fill = h.create(kRootIno, "fill");
    std::uint64_t written = 0;
    while (code(h.tree().write(fill, ByteOffset{written}, as_bytes(noise(64 * KiB, random())), Wait::yes)) == 0) written += 64 * KiB;
    const double beyond = (static_cast<double>(written) - static_cast<double>(said)) / static_cast<double>(total);
    EXPECT_GE(beyond, -0.02) << written << " of " << said;
    EXPECT_LE(beyond, 0.15) << written << " of " << said;
    remove("fill");
  }

  Harness h{ByteCount{256 * MiB}};
  std::mt19937_64 random{drawn_seed()};

 private:
  // In pieces as the kernel's.
  void write(const std::string& name, std::size_t size, bool compressible) {
    for (std::size_t at = 0; at < size; at += MiB) {
      const std::size_t piece = std::min(size - at, MiB);
      h.write(h.walk(name), at, compressible ? std::string(piece, 'x') : noise(piece, random()));
    }
  }

  std::uint64_t files_ = 0;
};

TEST_F(SaidToFit, AfterAnyCycle) {
  const int rounds = std::getenv("LSMFS_LONG") != nullptr ? 60 : 1;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    constexpr std::size_t kSizes[] = {KiB, 6000, 64 * KiB, 3 * MiB, 24 * MiB};
    const std::size_t size = kSizes[random() % std::size(kSizes)];
    const bool compressible = random() % 2 == 0, compressible_then = random() % 3 == 0 ? !compressible : compressible;
    const auto change = random() % 3;
    SCOPED_TRACE(fmt::format("round {}: files of {} bytes that {}compress, {}", round, size, compressible ? "" : "do not ",
                             change == 0 ? "half of them removed" : change == 1 ? "cut" : compressible_then ? "written over with such that compress" : "written over with such that do not"));
    make_files(size, compressible);
    expect_to_fit();
    if (change == 0) remove_every(2);
    if (change == 1) cut(size / 3);
    if (change == 2) write_over(size, compressible_then);
    if (random() % 2 == 0) h.remount();
    expect_to_fit();
    remove_every(1);
    expect_to_fit();
  }
  EXPECT_EQ(h.check(), "");
}

// Only what grows needs room.
TEST(Space, InAFullTreeWhatIsThereCanBeWrittenOverCutAndPunched) {
  Harness h;
  const Ino f = h.create(kRootIno, "f"), g = h.create(kRootIno, "g", noise(8 * MiB, 1));
  std::uint64_t size = 0;
  int error = 0;
  for (const std::size_t piece : {std::size_t{MiB}, std::size_t{kBlockSize}}) {
    for (error = 0; !error; size += error ? 0 : piece) error = code(h.tree().write(f, ByteOffset{size}, as_bytes(noise(piece, size)), Wait::yes));
    EXPECT_EQ(error, ENOSPC);
  }
  std::mt19937_64 random(7);
  const auto free_before = h.tree().space(Wait::yes)->free;
  for (std::uint64_t written = 0; written < 2 * size && !HasFailure(); written += 64 * KiB) {
    const std::uint64_t at = random() % (size / (64 * KiB)) * (64 * KiB);
    ASSERT_EQ(code(h.tree().write(f, ByteOffset{at}, as_bytes(noise(64 * KiB, written)), Wait::yes)), 0) << written;
  }
  // Rows that have not been flushed count whole, so it is known to two memtables.
  constexpr std::uint64_t kKnown = 4 * MiB;
  EXPECT_LE(h.tree().space(Wait::yes)->free.v, free_before.v + kKnown);
  EXPECT_GE(h.tree().space(Wait::yes)->free.v + kKnown, free_before.v);
  std::uint64_t grown = 0;
  while (code(h.tree().write(f, ByteOffset{size + grown}, as_bytes(noise(256 * KiB, grown)), Wait::yes)) == 0) grown += 256 * KiB;
  EXPECT_LE(grown, kKnown);
  // What goes is room at once.
  ASSERT_EQ(code(h.tree().setattr(g, {.size = 0}, Wait::yes)), 0);
  ASSERT_TRUE(h.tree().sync());
  h.write(g, 0, noise(6 * MiB, 2));
  ASSERT_EQ(code(h.tree().fallocate(f, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{0}, ByteCount{4 * MiB}, Wait::yes)), 0);
  ASSERT_TRUE(h.tree().sync());
  h.write(g, 6 * MiB, noise(2 * MiB, 3));
  EXPECT_EQ(h.check(), "");
}

// However little that is, and however much the estimate of what is free has changed since the tree was full.
TEST(Space, AFullTreeTakesAsMuchAsIsRemovedFromIt) {
  Harness h;
  constexpr int kSmall = 64;
  constexpr std::size_t kSize = 32 * KiB;
  const auto name = [](int i) { return fmt::format("small{}", i); };
  for (int i = 0; i < kSmall; ++i) h.create(kRootIno, name(i), noise(kSize, static_cast<std::uint64_t>(i)));
  Ino f = h.create(kRootIno, "f");
  std::uint64_t size = 0;
  int error = 0;
  for (const std::size_t piece : {std::size_t{MiB}, std::size_t{kBlockSize}}) {
    for (error = 0; !error; size += error ? 0 : piece) error = code(h.tree().write(f, ByteOffset{size}, as_bytes(noise(piece, size)), Wait::yes));
  }
  std::mt19937_64 random(8);
  for (int round = 0; round < 2 * kSmall; ++round) {
    SCOPED_TRACE(round);
    const int i = round % kSmall;
    const std::uint64_t at = random() % (size / MiB) * MiB;
    ASSERT_EQ(code(h.tree().write(f, ByteOffset{at}, as_bytes(noise(MiB, random())), Wait::yes)), 0);
    const Ino gone = h.walk(name(i));
    ASSERT_EQ(code(h.tree().unlink(kRootIno, name(i), Wait::yes)), 0);
    h.tree().forget(gone, 1000);
    const auto made = h.tree().make(kRootIno, name(i), {.mode = S_IFREG | 0644}, Wait::yes);
    ASSERT_EQ(code(made), 0);
    ASSERT_EQ(code(h.tree().write(made->ino, ByteOffset{0}, as_bytes(noise(kSize, random())), Wait::yes)), 0);
    if (round % 16 != 0) continue;
    h.remount();
    f = h.walk("f");
  }
  std::uint64_t grown = 0;
  while (code(h.tree().write(f, ByteOffset{size + grown}, as_bytes(noise(kBlockSize, grown)), Wait::yes)) == 0) grown += kBlockSize;
  EXPECT_LE(grown, 4 * MiB) << "that is what rows in memory count too much";
  EXPECT_EQ(h.check(), "");
}

// A commit that has come to the store and has not ended. Its rows are no growth any more.
class EndsLate : public StoreDecorator {
 public:
  EndsLate(std::unique_ptr<Store> inner, Gate& gate, const bool& full) : StoreDecorator(std::move(inner)), gate_(gate), full_(full) {}
  Result<void> commit(Batch& batch) override {
    auto done = inner().commit(batch);
    gate_.pass();
    return done;
  }
  Room room() const override {
    const Room room = StoreDecorator::room();
    return {ByteCount{full_ ? 0 : room.v}, room.rows};
  }

 private:
  Gate& gate_;
  const bool& full_;
};

TEST(Space, WhatIsBeingCommittedIsNotCountedTwice) {
  Gate gate(true);
  bool full = false;
  Harness h(ByteCount{kDeviceMin}, {.sync_interval_ms = 0},
            {.store = [&](std::unique_ptr<Store> store) { return std::make_unique<EndsLate>(std::move(store), gate, full); }});
  constexpr std::size_t kSize = 32 * KiB;
  const Ino f = h.create(kRootIno, "f", noise(kSize, 1)), g = h.create(kRootIno, "g", noise(kSize, 2));
  ASSERT_EQ(code(h.tree().setattr(f, {.size = 0}, Wait::yes)), 0);
  ASSERT_TRUE(h.tree().sync());
  h.write(f, 0, noise(kSize, 3));
  gate.shut();
  std::thread syncing([&] { EXPECT_TRUE(h.tree().sync()); });
  ASSERT_TRUE(gate.await(1));
  full = true;
  EXPECT_EQ(code(h.tree().setattr(g, {.size = 0}, Wait::yes)), 0);
  EXPECT_NE(code(h.tree().write(g, ByteOffset{0}, as_bytes(noise(kSize, 4)), Wait::no)), ENOSPC) << "in place of what was cut";
  full = false;
  gate.open();
  syncing.join();
  h.write(g, 0, noise(kSize, 4));
  h.unmount();
}

// Rows that compress worse than those they replace are growth, which nobody sees before they are in tables.
TEST(Space, WhatCompressesWorseThanWhatWasThereMeetsTheEndToo) {
  Harness h;
  constexpr std::uint64_t kSize = 256 * MiB;
  const Ino f = h.create(kRootIno, "f");
  const std::string zeros(MiB, '\0');
  for (std::uint64_t at = 0; at < kSize; at += MiB) h.write(f, at, zeros);
  ASSERT_TRUE(h.tree().sync());
  std::uint64_t at = 0;
  int error = 0;
  for (; at < kSize && !error; at += error ? 0 : 64 * KiB) error = code(h.tree().write(f, ByteOffset{at}, as_bytes(noise(64 * KiB, at)), Wait::yes));
  EXPECT_EQ(error, ENOSPC);
  EXPECT_GT(at, 30 * MiB);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.read(f, at - 64 * KiB, 64 * KiB), noise(64 * KiB, at - 64 * KiB));
  EXPECT_EQ(h.read(f, at, 64 * KiB), zeros.substr(0, 64 * KiB));
  // What goes brings it back.
  ASSERT_EQ(code(h.tree().setattr(f, {.size = at / 2}, Wait::yes)), 0);
  ASSERT_TRUE(h.tree().sync());
  for (std::uint64_t over = 0; over < at / 2 && !HasFailure(); over += 64 * KiB) h.write(f, over, noise(64 * KiB, over + 1));
  EXPECT_EQ(h.check(), "");
}

TEST(Space, InAFullTreeWhatDoesNotGrowIsDone) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", noise(64 * KiB, 1)), sparse = h.create(kRootIno, "s"), full = h.create(kRootIno, "full");
  const std::string value(2000, 'x'), other(2000, 'y');
  ASSERT_EQ(code(h.tree().setxattr(f, "user.large", value, 0, Wait::yes)), 0);
  ASSERT_EQ(code(h.tree().setxattr(f, "user.small", "1", 0, Wait::yes)), 0);
  h.write(sparse, 0, noise(64 * KiB, 2));
  h.write(sparse, 128 * KiB, noise(64 * KiB, 2));
  std::uint64_t size = 0;
  int error = 0;
  for (const std::size_t piece : {std::size_t{64 * KiB}, std::size_t{kBlockSize}}) {
    for (error = 0; !error; size += error ? 0 : piece) error = code(h.tree().write(full, ByteOffset{size}, as_bytes(noise(piece, size)), Wait::yes));
  }
  ASSERT_EQ(error, ENOSPC);
  EXPECT_EQ(code(h.tree().setxattr(f, "user.large", other, 0, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().setxattr(f, "user.small", "2", 0, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().setxattr(f, "user.new", std::string(16 * KiB, 'z'), 0, Wait::yes)), ENOSPC);
  const auto allocate = [&](Ino ino, int mode, std::uint64_t from, std::uint64_t length) {
    return code(h.tree().fallocate(ino, mode, ByteOffset{from}, ByteCount{length}, Wait::yes));
  };
  EXPECT_EQ(allocate(f, 0, 0, 64 * KiB), 0);
  EXPECT_EQ(allocate(f, FALLOC_FL_ZERO_RANGE, 0, 32 * KiB), 0);
  EXPECT_EQ(allocate(sparse, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 32 * KiB), 0);
  EXPECT_EQ(allocate(sparse, 0, 1 * MiB, 1 * GiB), ENOSPC);
  EXPECT_EQ(code(h.tree().rename(kRootIno, "f", kRootIno, "a longer name", 0, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().setattr(f, {.mode = 0600}, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().make(kRootIno, "empty", {.mode = S_IFREG | 0644}, Wait::yes)), 0);
  EXPECT_EQ(code(h.tree().setxattr(h.walk("empty"), "user.small", "3", 0, Wait::yes)), 0);
  EXPECT_EQ(h.check(), "");
}

// The kernel forgets a file that nobody has open at once, but later requests may overtake that.
class Removed : public testing::Test {
 protected:
  bool room_comes(Wait wait) { return h.tree().room_comes(wait, seen); }
  std::uint64_t free() { return h.tree().space(Wait::yes)->free.v; }
  // A file of 4 MiB that has gone.
  Ino removed() {
    const Ino f = h.create(kRootIno, "f", noise(4 * MiB, 1));
    EXPECT_TRUE(h.tree().sync());
    before = free();
    EXPECT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
    return f;
  }
  static TreeOptions options(Clock& clock) {
    TreeOptions with{.sync_interval_ms = 0};
    with.clock = &clock;
    return with;
  }

  SteppedClock clock;
  Harness h{ByteCount{kDeviceMin}, options(clock)};
  std::uint64_t seen = 0, before = 0;
};

TEST_F(Removed, AFileIsReasonToTryAgainOnce) {
  EXPECT_FALSE(room_comes(Wait::no));
  EXPECT_FALSE(room_comes(Wait::yes));
  const Ino f = removed();
  EXPECT_TRUE(room_comes(Wait::no));
  EXPECT_EQ(code(h.tree().space(Wait::no)), EAGAIN);
  bool comes = false;
  std::thread waiting([&] { comes = room_comes(Wait::yes); });
  h.tree().forget(f, 1);  // before or after it waits
  waiting.join();
  EXPECT_TRUE(comes);
  EXPECT_FALSE(room_comes(Wait::yes));
}

TEST_F(Removed, AFileIsFreeSpaceForWhoAsksNext) {
  const Ino f = removed();
  std::uint64_t found = 0;
  std::thread waiting([&] { found = free(); });
  h.tree().forget(f, 1);
  waiting.join();
  EXPECT_GE(found, before + 3 * MiB);
}

TEST_F(Removed, AFileThatIsOpenIsWaitedForInVain) {
  const Ino f = removed();
  clock.advance(std::chrono::seconds(2));
  EXPECT_FALSE(room_comes(Wait::no));
  EXPECT_FALSE(room_comes(Wait::yes));
  EXPECT_LE(free(), before);
  h.tree().forget(f, 1);
  EXPECT_GE(free(), before + 3 * MiB);
}

TEST(Space, FilesInUseAreCounted) {
  Harness h;
  h.create(kRootIno, "a");
  h.mkdir(kRootIno, "b");
  const SpaceInfo s = *h.tree().space(Wait::yes);
  EXPECT_EQ(s.files, 3u);
  EXPECT_GT(s.total.v, 0u);
  EXPECT_LE(s.free.v, s.total.v);
}

}  // namespace
}  // namespace lsmfs::test::space_test
