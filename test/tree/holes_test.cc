#include <gtest/gtest.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include "tree/harness.h"

namespace lsmfs::test {
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

}  // namespace
}  // namespace lsmfs::test
