// Shares: what files have in common after a copy, what becomes of it when one of them changes or goes, and when its space is free.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "lsmfs/device.h"
#include "kv/store_decorator.h"
#include "noise.h"
#include "seed.h"
#include "tree/harness.h"
#include "tree/keys.h"

namespace lsmfs::test::shares_test {
namespace {

constexpr std::uint64_t kSmall = 200 * KiB;  // is copied as a whole when it is written
constexpr std::uint64_t kLarge = 3 * MiB + 1000;

class Shares : public testing::Test {
 protected:
  explicit Shares(ByteCount size = ByteCount{kDeviceMin}) : h_(size) {}

  Tree& tree() { return h_.tree(); }
  std::string noise(std::uint64_t bytes) {
    std::string out(bytes, '\0');
    fill_with_noise(random_(), out);
    return out;
  }
  // Into a file, and into what it should hold.
  void write_noise(Ino ino, std::string& bytes, std::uint64_t at, std::uint64_t n) {
    const std::string more = noise(n);
    h_.write(ino, at, more);
    bytes.resize(std::max<std::size_t>(bytes.size(), at + n));
    bytes.replace(at, n, more);
  }
  Ino create(const std::string& name, const std::string& data) { return h_.create(kRootIno, name, data); }
  // As cp does it.
  void copy(Ino from, Ino to, std::uint64_t at = 0, std::uint64_t to_at = 0, std::uint64_t length = UINT64_MAX) {
    for (;;) {
      const auto n = both_ways([&](Wait w) { return tree().copy_range(from, ByteOffset{at}, to, ByteOffset{to_at}, ByteCount{length}, w); });
      ASSERT_TRUE(n) << n.error().message();
      if (n->v == 0 || n->v == length) return;
      at += n->v;
      to_at += n->v;
      length -= n->v;
    }
  }
  Ino copy_of(Ino from, const std::string& name) {
    const Ino to = create(name, "");
    copy(from, to);
    return to;
  }
  void remove(const std::string& name, Ino ino) {
    ASSERT_TRUE(tree().unlink(kRootIno, name, Wait::yes));
    tree().forget(ino, 1000);
  }
  std::uint64_t rows() {
    EXPECT_TRUE(tree().sync());
    return h_.rows(Family::blocks);
  }
  // What nobody uses any more has gone.
  void settle() {
    for (auto more = tree().relocate(); more && *more;) more = tree().relocate();
    EXPECT_TRUE(tree().sync());
  }
  void expect(Ino ino, const std::string& data) {
    EXPECT_EQ(h_.attr(ino).size, data.size());
    EXPECT_TRUE(h_.read(ino) == data) << "inode " << ino.v;
  }
  void sound() { EXPECT_EQ(h_.check(), ""); }

  std::mt19937_64 random_{drawn_seed()};
  Harness h_;
};

TEST_F(Shares, ACopyWritesNoData) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data);
  const std::uint64_t before = rows();
  const Ino twin = copy_of(source, "copy");
  EXPECT_EQ(rows(), before);
  EXPECT_EQ(h_.attr(twin).blocks, h_.attr(source).blocks);
  expect(twin, data);
  expect(source, data);
  sound();
  h_.remount();
  EXPECT_TRUE(h_.read_path("copy") == data);
  EXPECT_TRUE(h_.read_path("source") == data);
  EXPECT_EQ(rows(), before);
  sound();
}

TEST_F(Shares, OfLittleItMakesRows) {
  const std::string data = noise(TreeOptions().share_past.v);
  const Ino source = create("source", data);
  const std::uint64_t before = rows();
  const Ino twin = copy_of(source, "copy");
  EXPECT_EQ(rows(), 2 * before);
  expect(twin, data);
  sound();
}

TEST_F(Shares, WhatOneSideWritesTheOtherDoesNotSee) {
  for (const std::uint64_t size : {kSmall, kLarge}) {
    for (const bool source_first : {true, false}) {
      const std::string data = noise(size);
      const Ino source = create("source", data), twin = copy_of(source, "copy");
      std::string of_source = data, of_twin = data;
      const auto write = [&](Ino ino, std::string& bytes, std::uint64_t at, std::uint64_t n) {
        write_noise(ino, bytes, at, n);
        expect(source, of_source);
        expect(twin, of_twin);
      };
      const auto write_both = [&](std::uint64_t at, std::uint64_t n) {
        if (source_first) write(source, of_source, at, n);
        write(twin, of_twin, at, n);
        if (!source_first) write(source, of_source, at, n);
      };
      write_both(5 * kBlockSize + 10, 20);               // within a block
      write_both(7 * kBlockSize, 2 * kBlockSize);        // whole ones
      write_both(size - 100, 5000);                      // over the end
      write_both(size + 20'000, 300);                    // past it
      sound();
      h_.remount();
      EXPECT_TRUE(h_.read_path("source") == of_source);
      EXPECT_TRUE(h_.read_path("copy") == of_twin);
      remove("source", h_.walk("source"));
      EXPECT_TRUE(h_.read_path("copy") == of_twin);
      sound();
      remove("copy", h_.walk("copy"));
      settle();
      EXPECT_EQ(rows(), 0u);
      sound();
    }
  }
}

TEST_F(Shares, AWriteIntoALargeCopyMakesFewRows) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  const std::uint64_t before = rows();
  h_.write(twin, 100 * kBlockSize + 5, "x");
  EXPECT_EQ(rows(), before + 1);
  h_.write(source, 100 * kBlockSize + 5, "y");
  EXPECT_EQ(rows(), before + 2);
  EXPECT_EQ(h_.attr(twin).blocks, h_.attr(source).blocks);
  sound();
}

TEST_F(Shares, ASmallCopyThatIsWrittenIsCopiedAsAWhole) {
  const std::string data = noise(kSmall);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  const std::uint64_t before = rows();
  h_.write(twin, 5, "x");
  EXPECT_EQ(rows(), 2 * before);
  settle();
  h_.write(source, 5, "y");  // nobody shares it any more
  EXPECT_EQ(rows(), 2 * before);
  sound();
}

TEST_F(Shares, TheSpaceOfASourceIsFreeWhenItsLastCopyGoes) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), first = copy_of(source, "first"), second = copy_of(source, "second");
  const std::uint64_t before = rows();
  remove("source", source);
  settle();
  EXPECT_EQ(rows(), before);
  expect(first, data);
  remove("first", first);
  settle();
  EXPECT_EQ(rows(), before);
  expect(second, data);
  sound();
  remove("second", second);
  settle();
  EXPECT_EQ(rows(), 0u);
  sound();
}

TEST_F(Shares, WhatWasLeftBehindAtACrashIsDroppedLater) {
  const Ino source = create("source", noise(kLarge)), twin = copy_of(source, "copy");
  remove("source", source);
  remove("copy", twin);
  EXPECT_GT(rows(), 0u);
  h_.crash();
  sound();
  settle();
  EXPECT_EQ(rows(), 0u);
  sound();
}

TEST_F(Shares, ASourceThatIsOpenWithoutANameCanBeCopied) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data);
  ASSERT_TRUE(tree().unlink(kRootIno, "source", Wait::yes));
  const Ino twin = copy_of(source, "copy");
  expect(source, data);
  ASSERT_TRUE(tree().sync());
  h_.crash();
  EXPECT_TRUE(h_.read_path("copy") == data);
  sound();
  remove("copy", h_.walk("copy"));
  settle();
  EXPECT_EQ(rows(), 0u);
  (void)twin;
}

TEST_F(Shares, WhatWasCutOffReadsAsZeros) {
  for (const bool of_copy : {true, false}) {
    const std::string data = noise(kLarge);
    const Ino source = create("source", data), twin = copy_of(source, "copy");
    const Ino cut = of_copy ? twin : source, other = of_copy ? source : twin;
    std::string shorter = data.substr(0, MiB + 50);
    for (const std::uint64_t size : {MiB + 50, 2 * MiB}) ASSERT_TRUE(tree().setattr(cut, {.size = size}, Wait::yes));
    shorter.resize(2 * MiB);
    expect(cut, shorter);
    expect(other, data);
    EXPECT_EQ(h_.attr(cut).blocks, (MiB / kBlockSize + 1) * 8);
    sound();
    ASSERT_TRUE(tree().setattr(cut, {.size = 0}, Wait::yes));
    expect(other, data);
    sound();
    remove("source", source);
    remove("copy", twin);
  }
}

TEST_F(Shares, HolesStayHoles) {
  const Ino source = create("source", "");
  const std::string piece = noise(20 * kBlockSize);
  for (const std::uint64_t at : {0, 100, 150, 400}) h_.write(source, at * kBlockSize, piece);
  const std::string data = h_.read(source);
  const Ino twin = copy_of(source, "copy");
  const std::uint64_t before = rows();
  EXPECT_EQ(h_.attr(twin).blocks, h_.attr(source).blocks);
  for (std::uint64_t at = 0; at < data.size(); at += 10 * kBlockSize) {
    for (const int whence : {SEEK_DATA, SEEK_HOLE}) {
      const auto seek = [&](Ino ino) { return both_ways([&](Wait w) { return tree().seek(ino, ByteOffset{at}, whence, w); }); };
      const auto of_source = seek(source), of_twin = seek(twin);
      ASSERT_TRUE(of_source && of_twin);
      EXPECT_EQ(of_source->v, of_twin->v) << at;
    }
  }
  // Punched on one side: a hole there alone.
  const int punch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  ASSERT_TRUE(tree().fallocate(twin, punch, ByteOffset{105 * kBlockSize + 100}, ByteCount{5 * kBlockSize}, Wait::yes));
  std::string punched = data;
  std::fill_n(punched.begin() + 105 * kBlockSize + 100, 5 * kBlockSize, '\0');
  expect(twin, punched);
  expect(source, data);
  EXPECT_EQ(h_.attr(twin).blocks + 4 * 8, h_.attr(source).blocks);
  EXPECT_EQ(tree().seek(twin, ByteOffset{105 * kBlockSize}, SEEK_HOLE, Wait::yes)->v, 106 * kBlockSize);
  ASSERT_TRUE(tree().fallocate(source, punch, ByteOffset{0}, ByteCount{kBlockSize}, Wait::yes));
  expect(twin, punched);
  EXPECT_EQ(rows(), before + 2);  // the two that were zeroed in part
  sound();
}

// A file may be of any size, and have blocks anywhere.
TEST_F(Shares, OfAFileThatHasHardlyAnyBlocks) {
  const Ino source = create("source", noise(kLarge));
  const std::uint64_t far[] = {MiB * MiB, MiB * MiB + 300 * MiB, kFileSizeMax / 2, kFileSizeMax - kBlockSize};
  for (const std::uint64_t at : far) h_.write(source, at, "far");
  const std::string data = h_.read(source, 0, kLarge);
  const Ino twin = create("copy", "");
  copy(source, twin, 0, 0, round_down(kLarge, kBlockSize));
  const std::uint64_t before = rows();
  const std::uint64_t blocks = h_.attr(source).blocks;
  h_.write(source, 10, "changed");
  EXPECT_EQ(rows(), before + 1);
  EXPECT_EQ(h_.attr(source).blocks, blocks);
  EXPECT_TRUE(h_.read(twin, 0, kLarge) == data.substr(0, round_down(kLarge, kBlockSize)));
  std::string changed = data;
  changed.replace(10, 7, "changed");
  EXPECT_TRUE(h_.read(source, 0, kLarge) == changed);
  for (const std::uint64_t at : far) EXPECT_EQ(h_.read(source, at, 3), "far") << at;
  EXPECT_EQ(h_.read(source, MiB * MiB - 2 * kBlockSize, 4), std::string(4, '\0'));
  sound();
  h_.crash();
  EXPECT_TRUE(h_.read(h_.walk("source"), 0, kLarge) == changed);
  for (const std::uint64_t at : far) EXPECT_EQ(h_.read(h_.walk("source"), at, 3), "far") << at;
  sound();
}

TEST_F(Shares, PartsOfFilesAtOtherPlaces) {
  const std::string data = noise(kLarge), old = noise(2 * MiB);
  const Ino source = create("source", data), target = create("target", old);
  const std::uint64_t before = rows();
  copy(source, target, 64 * kBlockSize, 100 * kBlockSize, 200 * kBlockSize);
  std::string mixed = old;
  mixed.replace(100 * kBlockSize, 200 * kBlockSize, data.substr(64 * kBlockSize, 200 * kBlockSize));
  expect(target, mixed);
  EXPECT_EQ(rows(), before - 200);
  // What does not end with a block: the rest is copied.
  copy(source, target, 0, 300 * kBlockSize, 100 * kBlockSize + 77);
  mixed.replace(300 * kBlockSize, 100 * kBlockSize + 77, data.substr(0, 100 * kBlockSize + 77));
  expect(target, mixed);
  // Nor begins with one.
  copy(source, target, 50 * kBlockSize + 10, 10, 90 * kBlockSize);
  mixed.replace(10, 90 * kBlockSize, data.substr(50 * kBlockSize + 10, 90 * kBlockSize));
  expect(target, mixed);
  sound();
  remove("source", source);
  settle();
  expect(target, mixed);
  h_.remount();
  EXPECT_TRUE(h_.read_path("target") == mixed);
  sound();
}

TEST_F(Shares, ACopyInPieces) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), twin = create("copy", "");
  const std::uint64_t before = rows();
  for (std::uint64_t at = 0; at < kLarge; at += MiB) copy(source, twin, at, at, std::min(MiB, kLarge - at));
  EXPECT_EQ(rows(), before + 1);  // the last piece is small
  expect(twin, data);
  EXPECT_EQ(h_.attr(twin).blocks, h_.attr(source).blocks);
  sound();
}

TEST_F(Shares, WithinOneFileAreCopied) {
  std::string data = noise(kLarge);
  const Ino file = create("file", data);
  copy(file, file, 0, 2 * MiB, MiB);
  data.replace(2 * MiB, MiB, data.substr(0, MiB));
  expect(file, data);
  sound();
}

// Each generation lies over those before it, up to a limit.
TEST_F(Shares, CopiesOfCopiesThatWereChanged) {
  std::vector<std::pair<Ino, std::string>> all;
  std::string data = noise(kLarge);
  Ino last = create("0", data);
  all.emplace_back(last, data);
  for (int i = 1; i <= 12; ++i) {
    last = copy_of(last, std::to_string(i));
    const std::uint64_t at = random_() % (kLarge - 10'000);
    const std::string more = noise(10'000);
    h_.write(last, at, more);
    data.replace(at, more.size(), more);
    all.emplace_back(last, data);
  }
  for (const auto& [ino, bytes] : all) expect(ino, bytes);
  sound();
  h_.remount();
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(h_.read_path(std::to_string(i)) == all[i].second) << i;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i) order.push_back(i);
  std::ranges::shuffle(order, random_);
  while (!order.empty()) {
    remove(std::to_string(order.back()), h_.walk(std::to_string(order.back())));
    order.pop_back();
    settle();
    sound();
    for (const std::size_t left : order) EXPECT_TRUE(h_.read_path(std::to_string(left)) == all[left].second) << left;
  }
  EXPECT_EQ(rows(), 0u);
}

// A file that is copied and then changed, again and again, as by a daily backup.
TEST_F(Shares, OneSourceThatIsCopiedAndChangedManyTimes) {
  std::string data = noise(kLarge);
  const Ino source = create("source", data);
  std::vector<std::string> copies;
  for (int i = 0; i < 12; ++i) {
    copy_of(source, std::to_string(i));
    copies.push_back(data);
    const std::string more = noise(5000);
    const std::uint64_t at = random_() % (kLarge - 10'000);
    h_.write(source, at, more);
    data.replace(at, more.size(), more);
  }
  expect(source, data);
  for (std::size_t i = 0; i < copies.size(); ++i) EXPECT_TRUE(h_.read_path(std::to_string(i)) == copies[i]) << i;
  sound();
  for (std::size_t i = 0; i < copies.size(); ++i) remove(std::to_string(i), h_.walk(std::to_string(i)));
  settle();
  expect(source, data);
  sound();
}

TEST_F(Shares, LargeAttributesGoAlong) {
  const std::string data = noise(kLarge), value = noise(5000);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().setxattr(source, "user.large", value, 0, Wait::yes));
  h_.write(source, 0, "x");
  EXPECT_EQ(*both_ways([&](Wait w) { return tree().getxattr(source, "user.large", w); }), value);
  sound();
  h_.remount();
  EXPECT_EQ(*tree().getxattr(h_.walk("source"), "user.large", Wait::yes), value);
  EXPECT_TRUE(h_.read_path("copy") == data);
  remove("source", h_.walk("source"));
  sound();
  (void)twin;
}

TEST_F(Shares, OfWhatIsRenamedAndRelocated) {
  const std::string data = noise(kSmall);
  const Ino dir = h_.mkdir(kRootIno, "dir"), source = h_.create(dir, "source", data);
  const Ino twin = copy_of(source, "copy"), moved = copy_of(source, "moved");
  ASSERT_TRUE(tree().rename(dir, "source", kRootIno, "renamed", 0, Wait::yes));
  ASSERT_TRUE(tree().rename(kRootIno, "moved", dir, "inside", 0, Wait::yes));
  ASSERT_TRUE(tree().rename(kRootIno, "dir", kRootIno, "other", 0, Wait::yes));
  settle();
  sound();
  expect(source, data);
  expect(twin, data);
  expect(moved, data);
  h_.write(source, 0, "X");
  h_.write(moved, 1, "Y");
  ASSERT_TRUE(tree().link(source, kRootIno, "again", Wait::yes));
  ASSERT_TRUE(tree().unlink(kRootIno, "renamed", Wait::yes));
  settle();
  sound();
  h_.remount();
  std::string changed = data;
  changed[0] = 'X';
  EXPECT_TRUE(h_.read_path("again") == changed);
  EXPECT_TRUE(h_.read_path("copy") == data);
  changed = data;
  changed[1] = 'Y';
  EXPECT_TRUE(h_.read_path("other/inside") == changed);
  sound();
}

TEST_F(Shares, ADirectoryWhoseFileOthersShareStaysWhereItIs) {
  const std::string data = noise(kSmall);
  const Ino dir = h_.mkdir(kRootIno, "dir"), source = h_.create(dir, "source", data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().rename(kRootIno, "dir", kRootIno, "other", 0, Wait::yes));
  settle();
  expect(source, data);
  expect(twin, data);
  sound();
}

TEST_F(Shares, SeveralNamesOfASource) {
  const std::string data = noise(kLarge);
  const Ino source = create("one", data);
  ASSERT_TRUE(tree().link(source, kRootIno, "two", Wait::yes));
  const Ino twin = copy_of(source, "copy");
  h_.write(source, 0, "changed");
  expect(twin, data);
  sound();
  ASSERT_TRUE(tree().unlink(kRootIno, "one", Wait::yes));
  sound();
  h_.remount();
  EXPECT_EQ(h_.read_path("two").substr(0, 7), "changed");
  EXPECT_TRUE(h_.read_path("copy") == data);
  sound();
}

// What cannot be shared is copied: a little while the next request waits, more by who waits himself.
TEST_F(Shares, OnlyLittleIsCopiedWithoutWaiting) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), target = create("target", "");
  const auto copied = [&](std::uint64_t length) {
    return at_once([&](Wait w) { return tree().copy_range(source, ByteOffset{1}, target, ByteOffset{0}, ByteCount{length}, w); });
  };
  ASSERT_TRUE(tree().sync());
  h_.read(source);
  const auto little = copied(3000);
  ASSERT_TRUE(little) << little.error().message();
  EXPECT_EQ(little->v, 3000u);
  expect(target, data.substr(1, 3000));
  EXPECT_EQ(code(tree().copy_range(source, ByteOffset{1}, target, ByteOffset{0}, ByteCount{128 * KiB}, Wait::no)), EAGAIN);
  EXPECT_EQ(tree().copy_range(source, ByteOffset{1}, target, ByteOffset{0}, ByteCount{128 * KiB}, Wait::yes)->v, 128 * KiB);
  expect(target, data.substr(1, 128 * KiB));
}

// Programs that do not ask again get as much as elsewhere, where only a part can be shared.
TEST_F(Shares, OneCallCopiesWhatIsBeforeAndAfterWhatItShares) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data);
  const std::uint64_t before = rows();
  int copies = 0;
  for (const std::uint64_t at : std::initializer_list<std::uint64_t>{1, kBlockSize - 1, 0, kBlockSize}) {
    for (const std::uint64_t length : std::initializer_list<std::uint64_t>{100'000, 64 * KiB + kBlockSize, kLarge - at - 1, kLarge - at}) {
      const Ino target = create("copy" + std::to_string(++copies), "");
      const std::uint64_t to_at = 5 * kBlockSize + at % kBlockSize;
      const auto n = both_ways([&](Wait w) { return tree().copy_range(source, ByteOffset{at}, target, ByteOffset{to_at}, ByteCount{length}, w); });
      ASSERT_TRUE(n) << n.error().message();
      EXPECT_EQ(n->v, length) << "from " << at;
      expect(target, std::string(to_at, '\0') + data.substr(at, length));
    }
  }
  EXPECT_LE(rows(), before + 16 * 2 + 4 * 25) << "it was shared";
  sound();
}

TEST_F(Shares, SayWhatCannotBeCopied) {
  const Ino file = create("file", noise(kLarge)), dir = h_.mkdir(kRootIno, "dir"), pipe = h_.make(kRootIno, "pipe", S_IFIFO | 0600);
  const Ino fixed = create("fixed", "");
  ASSERT_TRUE(tree().setattr(fixed, {.flags = 0x10}, Wait::yes));
  const auto copy_code = [&](Ino from, Ino to, std::uint64_t to_at = 0) {
    return code(tree().copy_range(from, ByteOffset{0}, to, ByteOffset{to_at}, ByteCount{MiB}, Wait::yes));
  };
  EXPECT_EQ(copy_code(dir, file), EISDIR);
  EXPECT_EQ(copy_code(file, dir), EISDIR);
  EXPECT_EQ(copy_code(pipe, file), EINVAL);
  EXPECT_EQ(copy_code(file, pipe), EINVAL);
  EXPECT_EQ(copy_code(file, fixed), EPERM);
  EXPECT_EQ(copy_code(file, file, kFileSizeMax), EFBIG);
  EXPECT_EQ(tree().copy_range(file, ByteOffset{kLarge}, fixed, ByteOffset{0}, ByteCount{1}, Wait::yes)->v, 0u);
}

// Who reads a copy without the lock while its blocks leave the base, and the base goes.
TEST_F(Shares, ReadersSeeWhatWasOrWhatIs) {
  for (int round = 0; round < 5 && !HasFailure(); ++round) {
    const std::string data(kLarge, 'a');
    const Ino source = create("source", data), twin = copy_of(source, "copy");
    remove("source", source);
    std::atomic<bool> stop = false, wrong = false;
    std::thread reader([&] {
      std::string got(256 * KiB, '\0');
      while (!stop) {
        for (std::uint64_t at = 0; at + got.size() <= kLarge; at += got.size()) {
          const auto n = tree().read(twin, ByteOffset{at}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes);
          if (!n || got.find_first_not_of("ab") != got.npos) wrong = true;
        }
      }
    });
    for (std::uint64_t at = 0; at < kLarge; at += 100 * KiB) h_.write(twin, at, std::string(std::min(100 * KiB, kLarge - at), 'b'));
    settle();
    stop = true;
    reader.join();
    EXPECT_FALSE(wrong);
    expect(twin, std::string(kLarge, 'b'));
    sound();
    remove("copy", twin);
    settle();
    EXPECT_EQ(rows(), 0u);
  }
}

// ---- what a base has and nobody sees

TEST_F(Shares, WhatNobodySeesOfABaseGoes) {
  std::string data = noise(kLarge);
  const Ino source = create("source", data), twin = copy_of(source, "copy"), other = copy_of(source, "other");
  const std::uint64_t blocks = rows();
  remove("source", source);
  std::string of_twin = data, of_other = data;
  const auto write = [&](Ino ino, std::string& bytes, std::uint64_t first, std::uint64_t count) {
    const std::string more = noise(count * kBlockSize);
    h_.write(ino, first * kBlockSize, more);
    bytes.replace(first * kBlockSize, more.size(), more);
  };
  write(twin, of_twin, 100, 200);
  settle();
  EXPECT_EQ(rows(), blocks + 200);  // the other one sees them
  write(other, of_other, 200, 300);
  settle();
  EXPECT_EQ(rows(), blocks + 500 - 100);
  expect(twin, of_twin);
  expect(other, of_other);
  sound();
  // Of what is cut off and punched, too.
  ASSERT_TRUE(tree().setattr(other, {.size = 400 * kBlockSize}, Wait::yes));
  of_other.resize(400 * kBlockSize);
  ASSERT_TRUE(tree().setattr(twin, {.size = 500 * kBlockSize}, Wait::yes));
  of_twin.resize(500 * kBlockSize);
  settle();
  EXPECT_EQ(rows(), 500u - 100 + 200 + 200);  // blocks of the base but 200 to 300, and of each its own
  expect(twin, of_twin);
  expect(other, of_other);
  sound();
  remove("other", other);
  settle();
  EXPECT_EQ(rows(), 500u);
  expect(twin, of_twin);
  sound();
  h_.crash();
  EXPECT_TRUE(h_.read_path("copy") == of_twin);
  sound();
}

TEST_F(Shares, ASmallSourceThatIsWrittenLeavesWhatItsCopySees) {
  const std::string data = noise(kSmall);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().setattr(twin, {.size = kSmall / 2}, Wait::yes));
  settle();
  const std::uint64_t blocks = rows();
  h_.write(source, 5, "x");  // it is copied as a whole
  settle();
  EXPECT_EQ(rows(), blocks + kSmall / 2 / kBlockSize);
  expect(twin, data.substr(0, kSmall / 2));
  sound();
}

// A mount looks at all there is, since nobody has noted it.
TEST_F(Shares, WhatNobodySeesGoesAfterACrash) {
  for (const bool crash : {true, false}) {
    std::string data = noise(kLarge);
    const Ino source = create("source", data), twin = copy_of(source, "copy");
    const std::uint64_t blocks = rows();
    remove("source", source);
    const std::string more = noise(100 * kBlockSize);
    h_.write(twin, 10 * kBlockSize, more);
    data.replace(10 * kBlockSize, more.size(), more);
    EXPECT_EQ(rows(), blocks + 100);
    if (crash) h_.crash();
    else h_.remount();
    settle();
    EXPECT_EQ(rows(), blocks);
    EXPECT_TRUE(h_.read_path("copy") == data);
    sound();
    remove("copy", h_.walk("copy"));
    settle();
    EXPECT_EQ(rows(), 0u);
  }
}

// Generations of copies with changes, of which one after the other goes in any order: what is left takes no more than it would by itself.
TEST_F(Shares, TheLastOfAChainTakesWhatAFreshCopyWould) {
  for (int round = 0; round < 4 && !HasFailure(); ++round) {
    std::map<std::string, std::string> all;
    std::string data = noise(kLarge);
    Ino last = create("0", data);
    all["0"] = data;
    for (int i = 1; i <= 7; ++i) {
      const Ino next = copy_of(last, std::to_string(i));
      const bool of_source = random_() % 2 == 0;  // which of both is changed
      const std::string changed = std::to_string(of_source ? i - 1 : i);
      all[std::to_string(i)] = all[std::to_string(i - 1)];
      for (int write = 0; write < 3; ++write) {
        const std::string more = noise(random_() % 50'000 + 1);
        const std::uint64_t at = random_() % (kLarge - more.size());
        h_.write(of_source ? last : next, at, more);
        all[changed].replace(at, more.size(), more);
      }
      last = next;
    }
    std::vector<std::string> order;
    for (const auto& [name, bytes] : all) order.push_back(name);
    std::ranges::shuffle(order, random_);
    while (order.size() > 1) {
      remove(order.back(), h_.walk(order.back()));
      order.pop_back();
      settle();
      sound();
      for (const std::string& name : order) EXPECT_TRUE(h_.read_path(name) == all[name]) << name;
    }
    EXPECT_EQ(rows(), div_up(kLarge, kBlockSize)) << "of " << order.front();
    remove(order.front(), h_.walk(order.front()));
    settle();
    EXPECT_EQ(rows(), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kNodePrefix), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kUserPrefix), 0u);
  }
}

// Whatever was copied, written, cut and removed: all that is left takes no more than its files have.
TEST_F(Shares, NothingIsLeftOfRandomCopies) {
  for (int round = 0; round < 6 && !HasFailure(); ++round) {
    const auto below = [&](std::uint64_t n) { return random_() % n; };
    std::map<std::string, std::string> all;
    for (const char* name : {"a", "b", "c", "d"}) {
      all[name] = noise(MiB + below(MiB));
      create(name, all[name]);
    }
    for (int step = 0; step < 60; ++step) {
      const auto pick = [&] { return std::next(all.begin(), static_cast<std::ptrdiff_t>(below(all.size()))); };
      auto& [name, bytes] = *pick();
      const Ino ino = h_.walk(name);
      switch (below(5)) {
        case 0: case 1: {
          const auto& [from_name, from] = *pick();
          if (from_name == name || from.empty()) break;
          const std::uint64_t at = round_down(below(from.size()), kBlockSize), to_at = round_down(below(bytes.size() + MiB), kBlockSize);
          const std::uint64_t length = below(3) == 0 ? from.size() - at : std::min(from.size() - at, below(MiB) + 1);
          copy(h_.walk(from_name), ino, at, to_at, length);
          bytes.resize(std::max<std::size_t>(bytes.size(), to_at + length));
          bytes.replace(to_at, length, from, at, length);
          break;
        }
        case 2: {
          const std::string more = noise(below(60'000) + 1);
          const std::uint64_t at = below(bytes.size() + 1);
          h_.write(ino, at, more);
          bytes.resize(std::max<std::size_t>(bytes.size(), at + more.size()));
          bytes.replace(at, more.size(), more);
          break;
        }
        case 3: {
          const std::uint64_t at = below(bytes.size() + 1), length = std::min<std::uint64_t>(below(300'000) + 1, bytes.size() - at);
          if (length == 0) break;
          ASSERT_TRUE(tree().fallocate(ino, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, ByteOffset{at}, ByteCount{length}, Wait::yes));
          std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), length, '\0');
          break;
        }
        default:
          if (step % 3 == 0) {
            bytes.resize(below(2 * MiB));
            ASSERT_TRUE(tree().setattr(ino, {.size = bytes.size()}, Wait::yes));
          } else {
            settle();
          }
      }
    }
    while (!all.empty()) {
      settle();
      std::uint64_t blocks = 0;
      for (const auto& [name, bytes] : all) {
        const Ino ino = h_.walk(name);
        expect(ino, bytes);
        blocks += h_.attr(ino).blocks / (kBlockSize / 512);
      }
      EXPECT_LE(rows(), blocks) << all.size() << " files";
      sound();
      const auto gone = std::next(all.begin(), static_cast<std::ptrdiff_t>(below(all.size())));
      remove(gone->first, h_.walk(gone->first));
      all.erase(gone);
      if (below(2) == 0) {
        ASSERT_TRUE(tree().sync());
        h_.crash();
      }
    }
    settle();
    EXPECT_EQ(rows(), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kNodePrefix), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kUserPrefix), 0u);
  }
}

// Who reads while that goes on.
TEST_F(Shares, ReadersDoNotNoticeWhatGoesBesideThem) {
  const std::string data(kLarge, 'a');
  const Ino source = create("source", data), twin = copy_of(source, "copy"), other = copy_of(source, "other");
  remove("source", source);
  std::atomic<bool> stop = false, wrong = false;
  std::thread reader([&] {
    std::string got(256 * KiB, '\0');
    while (!stop) {
      for (const Ino ino : {twin, other}) {
        for (std::uint64_t at = 0; at + got.size() <= kLarge; at += got.size()) {
          const auto n = tree().read(ino, ByteOffset{at}, {reinterpret_cast<std::byte*>(got.data()), got.size()}, Wait::yes);
          if (!n || got.find_first_not_of("ab") != got.npos) wrong = true;
        }
      }
    }
  });
  for (std::uint64_t at = 0; at + 20 * KiB < kLarge; at += 60 * KiB) {
    for (const Ino ino : {twin, other}) h_.write(ino, at, std::string(20 * KiB, 'b'));
    settle();
  }
  stop = true;
  reader.join();
  EXPECT_FALSE(wrong);
  sound();
}

// Large files lie in blobs.
class LargeShares : public Shares {
 protected:
  LargeShares() : Shares(ByteCount{GiB}) {}
  Ino stream(const std::string& name, std::uint64_t bytes, std::string& data) {
    const Ino ino = create(name, "");
    data.clear();
    while (data.size() < bytes) {
      const std::string piece = noise(std::min<std::uint64_t>(128 * KiB, bytes - data.size()));
      h_.write(ino, data.size(), piece);
      data += piece;
    }
    return ino;
  }
};

TEST_F(LargeShares, StayInTheirBlobs) {
  std::string data;
  const Ino source = stream("source", 20 * MiB + 100, data);
  ASSERT_TRUE(tree().sync());
  const auto blobs = h_.store().blobs();
  ASSERT_FALSE(blobs.empty());
  const std::uint64_t before = rows();
  const Ino twin = copy_of(source, "copy");
  EXPECT_EQ(rows(), before);
  EXPECT_EQ(h_.store().blobs(), blobs);
  expect(twin, data);
  std::string of_twin = data, of_source = data;
  const auto write = [&](Ino ino, std::string& bytes, std::uint64_t at, std::uint64_t n) {
    write_noise(ino, bytes, at, n);
    expect(source, of_source);
    expect(twin, of_twin);
  };
  write(twin, of_twin, 10 * MiB + 5, 10'000);
  write(source, of_source, 12 * MiB + 5, 10'000);
  write(twin, of_twin, of_twin.size(), MiB);  // a stream again
  write(source, of_source, of_source.size(), MiB);
  sound();
  remove("source", source);
  settle();
  expect(twin, of_twin);
  sound();
  h_.remount();
  EXPECT_TRUE(h_.read_path("copy") == of_twin);
  remove("copy", h_.walk("copy"));
  settle();
  EXPECT_EQ(rows(), 0u);
  EXPECT_TRUE(h_.store().blobs().empty());
  sound();
}

TEST_F(LargeShares, OfAStreamThatIsStillWritten) {
  std::string data;
  const Ino source = stream("source", 10 * MiB, data), twin = copy_of(source, "copy");
  const std::string more = noise(MiB);
  h_.write(source, data.size(), more);
  expect(twin, data);
  expect(source, data + more);
  sound();
  h_.crash();
  sound();
}

TEST_F(LargeShares, BlobsThatNobodySeesGo) {
  std::string data;
  const Ino source = stream("source", 40 * MiB, data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().sync());
  const std::size_t blobs = h_.store().blobs().size();
  ASSERT_GT(blobs, 2u);
  remove("source", source);
  ASSERT_TRUE(tree().setattr(twin, {.size = 6 * MiB}, Wait::yes));
  data.resize(6 * MiB);
  settle();
  EXPECT_LT(h_.store().blobs().size(), blobs);
  EXPECT_GT(h_.store().blobs().size(), 0u);
  expect(twin, data);
  sound();
  h_.write(twin, 5 * MiB, "x");  // of a blob that stays
  data[5 * MiB] = 'x';
  settle();
  expect(twin, data);
  sound();
  h_.crash();
  EXPECT_TRUE(h_.read_path("copy") == data);
  sound();
}

TEST_F(LargeShares, OfABaseWhoseRowIsLostAreFoundAgain) {
  std::string data;
  const Ino source = stream("source", 20 * MiB, data), twin = copy_of(source, "copy");
  h_.write(twin, 10 * MiB, "x");
  data[10 * MiB] = 'x';
  remove("source", source);
  ASSERT_TRUE(tree().sync());
  Batch batch;
  batch.erase(Family::names, keys::node(source));
  ASSERT_TRUE(h_.store().commit(batch));
  const std::string said = h_.repair();
  EXPECT_NE(said.find("its row was lost"), std::string::npos) << said;
  EXPECT_EQ(said.find("other blocks of data, and not"), std::string::npos) << said;  // its new row says at once what it has
  EXPECT_TRUE(h_.read_path("copy") == data);
  sound();
}

// Some rows of names cannot be read.
struct Unreadable {
  std::string prefix;  // of their keys; "": all can be
  bool has(std::string_view key) const { return !prefix.empty() && key.starts_with(prefix); }
};

class LosesRows : public StoreDecorator {
 public:
  LosesRows(std::unique_ptr<Store> inner, const Unreadable& which) : StoreDecorator(std::move(inner)), which_(which) {}
  Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) override {
    if (family == Family::names && which_.has(key)) return make_error(EUCLEAN, "planted");
    return inner().get(family, key, wait);
  }
  std::unique_ptr<lsmfs::Cursor> cursor(Family family, const CursorOptions& options) override {
    auto real = inner().cursor(family, options);
    if (family != Family::names || !which_.has(options.lower)) return real;
    return std::make_unique<Damaged>();
  }

 private:
  class Damaged : public lsmfs::Cursor {
   public:
    void seek(std::string_view) override {}
    void next() override {}
    bool valid() const override { return false; }
    std::string_view key() const override { return {}; }
    std::string_view value() const override { return {}; }
    Result<void> status() const override { return make_error(EUCLEAN, "planted"); }
  };
  const Unreadable& which_;
};

class UnreadableShares : public Shares {
 protected:
  UnreadableShares() {
    h_.between.store = [this](std::unique_ptr<Store> inner) -> std::unique_ptr<Store> { return std::make_unique<LosesRows>(std::move(inner), unreadable_); };
    h_.remount();
  }
  ~UnreadableShares() override { unreadable_ = {}; }
  Unreadable unreadable_;
};

TEST_F(UnreadableShares, LeaveTheRestOfTheTreeAsItIs) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  remove("source", source);
  remove("copy", twin);
  const Ino other = create("other", data);
  copy_of(other, "another");
  remove("other", other);
  ASSERT_TRUE(tree().sync());
  for (const std::string_view prefix : {keys::kUserPrefix, keys::kNodePrefix}) {
    unreadable_.prefix = prefix;
    h_.crash();  // so that all that is known is what rows say
    EXPECT_TRUE(h_.read_path("another") == data);
    EXPECT_GT(rows(), 0u);
    unreadable_ = {};
  }
  h_.crash();
  settle();
  EXPECT_TRUE(h_.read_path("another") == data);
  sound();
}

// Nobody knows whether others share it: so they may.
TEST_F(UnreadableShares, CanBeWritten) {
  const std::string data = noise(kLarge), value = noise(5000);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().setxattr(source, "user.large", value, 0, Wait::yes));
  ASSERT_TRUE(tree().sync());
  unreadable_.prefix = keys::kUserPrefix;
  h_.write(source, 10, "changed");
  unreadable_ = {};
  expect(twin, data);
  EXPECT_EQ(h_.read(source, 10, 7), "changed");
  EXPECT_EQ(*tree().getxattr(source, "user.large", Wait::yes), value);
  sound();
}

TEST_F(UnreadableShares, CanBeWrittenWithoutTheirAttributes) {
  const std::string data = noise(kLarge);
  const Ino source = create("source", data), twin = copy_of(source, "copy");
  ASSERT_TRUE(tree().setxattr(source, "user.large", noise(5000), 0, Wait::yes));
  ASSERT_TRUE(tree().sync());
  unreadable_.prefix = keys::xattr(keys::child_home("", "source", source), "user.large");
  h_.write(source, 10, "changed");
  unreadable_ = {};
  expect(twin, data);
  EXPECT_EQ(h_.read(source, 10, 7), "changed");
}

// What is written over parts of blocks in blobs.
class PatchedShares : public LargeShares {
 protected:
  static constexpr std::uint64_t kBlock = 2500;  // of a blob

  void begin() {
    source_ = stream("source", 20 * MiB, data_);
    ASSERT_TRUE(tree().sync());
    ASSERT_TRUE(tree().drop_caches());  // and it is a stream no more
    for (const std::uint64_t block : {kBlock, kBlock + 1, kBlock + 40}) patch(source_, data_, block * kBlockSize + 50, "patched");
    EXPECT_EQ(patches(), 3u);
  }
  void patch(Ino ino, std::string& bytes, std::uint64_t at, std::string_view more) {
    h_.write(ino, at, more);
    bytes.replace(at, more.size(), more);
  }
  std::uint64_t patches() {
    EXPECT_TRUE(tree().sync());
    return h_.rows(Family::names, keys::kBlobPatchPrefix);
  }
  void expect_both(Ino twin, const std::string& of_twin) {
    expect(source_, data_);
    expect(twin, of_twin);
    sound();
  }
  Ino source_;
  std::string data_;
};

TEST_F(PatchedShares, AreOfBothSides) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = copy_of(source_, "copy");
  EXPECT_EQ(patches(), 3u);
  expect_both(twin, data_);
  h_.remount();
  EXPECT_TRUE(h_.read_path("source") == data_);
  EXPECT_TRUE(h_.read_path("copy") == data_);
  // A part of each block of the range alone.
  const Ino other = h_.walk("copy");
  for (std::uint64_t at = kBlock * kBlockSize; at < (kBlock + 2) * kBlockSize; at += 1000) EXPECT_EQ(h_.read(other, at, 1000), data_.substr(at, 1000));
}

TEST_F(PatchedShares, GoOnOnEachSideByThemselves) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = copy_of(source_, "copy");
  std::string of_twin = data_;
  const std::uint64_t before = rows();
  // What is shared is no blob of one's own: it gets a row, with what its patch says.
  patch(twin, of_twin, kBlock * kBlockSize + 53, "over it");
  expect_both(twin, of_twin);
  EXPECT_EQ(rows(), before + 1);
  EXPECT_EQ(patches(), 3u);
  patch(source_, data_, kBlock * kBlockSize + 60, "on the other side");
  patch(source_, data_, (kBlock + 1) * kBlockSize, noise(kBlockSize));
  expect_both(twin, of_twin);
  EXPECT_EQ(rows(), before + 3);
  EXPECT_EQ(patches(), 3u);  // those of the base
  h_.crash();
  EXPECT_TRUE(h_.read_path("source") == data_);
  EXPECT_TRUE(h_.read_path("copy") == of_twin);
  sound();
}

TEST_F(PatchedShares, AreReadAtOtherPlaces) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = create("copy", "");
  const std::uint64_t blocks = 100, first = kBlock - 20;
  std::string of_twin(10 * kBlockSize, '\0');
  for (int i = 0; i < 2; ++i) {
    copy(source_, twin, first * kBlockSize, of_twin.size(), blocks * kBlockSize);
    of_twin += data_.substr(first * kBlockSize, blocks * kBlockSize);
  }
  // And those that follow are of the same blob, and come before.
  copy(source_, twin, (first - 10) * kBlockSize, of_twin.size(), blocks * kBlockSize);
  of_twin += data_.substr((first - 10) * kBlockSize, blocks * kBlockSize);
  expect_both(twin, of_twin);
  patch(twin, of_twin, 30 * kBlockSize + 55, "over it");
  expect_both(twin, of_twin);
}

TEST_F(PatchedShares, GoWithTheBase) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = copy_of(source_, "copy");
  remove("source", source_);
  settle();
  EXPECT_EQ(patches(), 3u);
  expect(twin, data_);
  sound();
  remove("copy", twin);
  settle();
  EXPECT_EQ(patches(), 0u);
  EXPECT_TRUE(h_.store().blobs().empty());
  sound();
}

TEST_F(PatchedShares, AreMadeAgainWhenNobodySharesTheFileAnyMore) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = copy_of(source_, "copy");
  expect(twin, data_);  // so the base is known
  remove("copy", twin);
  settle();
  const std::uint64_t before = rows();
  patch(source_, data_, (kBlock + 7) * kBlockSize + 9, "again");
  EXPECT_EQ(patches(), 4u);
  EXPECT_EQ(rows(), before);
  const Ino second = copy_of(source_, "second");
  expect_both(second, data_);
}

// A file that others share has another home when it was written: what is written over its later blobs is kept there.
TEST_F(PatchedShares, OfAFileThatHasAnotherHome) {
  ASSERT_NO_FATAL_FAILURE(begin());
  const Ino twin = copy_of(source_, "copy");
  const std::string of_twin = data_;
  while (data_.size() < 40 * MiB) {
    const std::string piece = noise(128 * KiB);
    h_.write(source_, data_.size(), piece);
    data_ += piece;
  }
  ASSERT_TRUE(tree().sync());
  ASSERT_TRUE(tree().drop_caches());
  patch(source_, data_, 35 * MiB + 50, "patched");
  EXPECT_EQ(patches(), 4u);
  expect_both(twin, of_twin);
  h_.crash();
  EXPECT_TRUE(h_.read_path("source") == data_);
  EXPECT_TRUE(h_.read_path("copy") == of_twin);
  sound();
  const Ino again = copy_of(h_.walk("source"), "again");
  expect(again, data_);
  remove("source", h_.walk("source"));
  settle();
  expect(again, data_);
  sound();
}

// Trees that are removed at once, with what others share in them.
class RemovedShares : public Shares {
 protected:
  void begin() {
    dir_ = h_.mkdir(kRootIno, "dir");
    below_ = h_.mkdir(dir_, "below");
  }
  void remove_dir() { ASSERT_TRUE(tree().remove_tree(dir_, kRootIno, Wait::yes)); }
  void sweep() {
    for (bool more = true; more;) {
      const auto swept = tree().sweep();
      ASSERT_TRUE(swept) << swept.error().message();
      more = *swept;
    }
  }
  Ino dir_, below_;
};

TEST_F(RemovedShares, LeaveWhatOthersShare) {
  begin();
  const std::string data = noise(kLarge);
  const Ino source = h_.create(below_, "source", data), inside = h_.create(dir_, "inside", "");
  copy(source, inside);
  const Ino twin = copy_of(source, "copy");
  const std::uint64_t before = rows();
  for (const Ino ino : {source, inside, below_}) tree().forget(ino, 1000);
  ASSERT_NO_FATAL_FAILURE(remove_dir());
  tree().forget(dir_, 1000);
  expect(twin, data);
  ASSERT_NO_FATAL_FAILURE(sweep());
  settle();
  EXPECT_EQ(rows(), before);
  expect(twin, data);
  sound();
  h_.write(twin, kLarge / 2, "changed");
  sound();
  remove("copy", twin);
  settle();
  EXPECT_EQ(rows(), 0u);
  sound();
}

TEST_F(RemovedShares, FreeTheirSpaceWithTheLast) {
  for (const bool crash : {false, true}) {
    begin();
    const std::string data = noise(kLarge);
    const Ino source = create("source", data);
    std::vector<Ino> inside;
    for (int i = 0; i < 5; ++i) {
      inside.push_back(h_.create(i % 2 == 0 ? dir_ : below_, std::to_string(i), ""));
      copy(source, inside.back());
    }
    h_.write(inside[1], MiB, noise(50'000));
    copy(inside[1], inside[2]);  // one of them is a base itself
    remove("source", source);
    EXPECT_GT(rows(), 0u);
    for (const Ino ino : inside) tree().forget(ino, 1000);
    tree().forget(below_, 1000);
    ASSERT_NO_FATAL_FAILURE(remove_dir());
    tree().forget(dir_, 1000);
    if (crash) {
      ASSERT_TRUE(tree().sync());
      ASSERT_TRUE(tree().sweep());
      h_.crash();
      sound();
    }
    ASSERT_NO_FATAL_FAILURE(sweep());
    settle();
    EXPECT_EQ(rows(), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kNodePrefix), 0u);
    EXPECT_EQ(h_.rows(Family::names, keys::kUserPrefix), 0u);
    sound();
  }
}

TEST_F(RemovedShares, OfASourceThatIsOpen) {
  begin();
  const std::string data = noise(kLarge);
  const Ino source = h_.create(below_, "source", data), twin = copy_of(source, "copy");
  ASSERT_NO_FATAL_FAILURE(remove_dir());
  ASSERT_NO_FATAL_FAILURE(sweep());
  expect(source, data);
  h_.write(source, 5, "changed");
  std::string changed = data;
  changed.replace(5, 7, "changed");
  expect(source, changed);
  expect(twin, data);
  const Ino again = copy_of(source, "again");
  expect(again, changed);
  sound();
  tree().forget(source, 1000);
  settle();
  expect(twin, data);
  expect(again, changed);
  sound();
}

}  // namespace
}  // namespace lsmfs::test::shares_test
