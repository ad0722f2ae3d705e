#include <gtest/gtest.h>

#include "tree/harness.h"
#include "until.h"

namespace lsmfs::test::data_test {
namespace {

TEST(Data, SparseFilesReadAsZerosAndCountOnlyWhatIsThere) {
  Harness h;
  const Ino f = h.create(kRootIno, "f");
  h.write(f, 10 * MiB + 5, "end");
  EXPECT_EQ(h.attr(f).size, 10 * MiB + 8);
  EXPECT_EQ(h.attr(f).blocks, 8u);
  EXPECT_EQ(h.read(f, 4096 * 3, 5), std::string(5, '\0'));
  h.write(f, 0, "start");
  h.write(f, 1, "x");  // a row that exists is not counted again
  EXPECT_EQ(h.attr(f).blocks, 16u);
  h.remount();
  const Ino again = h.walk("f");
  EXPECT_EQ(h.read(again, 0, 6), std::string("sxart\0", 6));
  EXPECT_EQ(h.read(again, 10 * MiB + 5), "end");
  EXPECT_EQ(h.attr(again).blocks, 16u);
}

TEST(Data, GrowingAgainAfterTruncationShowsZerosNotOldBytes) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", std::string(10'000, 'x'));
  ASSERT_TRUE(h.tree().setattr(f, {.size = 5000}, Wait::yes));
  ASSERT_TRUE(h.tree().setattr(f, {.size = 10'000}, Wait::yes));
  EXPECT_EQ(h.read(f), std::string(5000, 'x') + std::string(5000, '\0'));
  EXPECT_EQ(h.attr(f).blocks, 16u);
  h.remount();
  EXPECT_EQ(h.read_path("f"), std::string(5000, 'x') + std::string(5000, '\0'));
}

TEST(Data, AWriteLeavesTimesToWhoKeepsThem) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "data");
  const Time then{1'000'000'000, 7};
  ASSERT_TRUE(h.tree().setattr(f, {.mtime = then, .ctime = then}, Wait::yes));
  ASSERT_TRUE(h.tree().write(f, ByteOffset{4}, as_bytes("more"), Wait::yes, ChangeTime::stays));
  EXPECT_EQ(h.attr(f).size, 8u);
  EXPECT_EQ(h.attr(f).mtime, then);
  EXPECT_EQ(h.attr(f).ctime, then);
  h.write(f, 4, "MORE");
  EXPECT_GT(h.attr(f).mtime, then);
  EXPECT_EQ(h.attr(f).ctime, h.attr(f).mtime);
}

TEST(Data, SmallWritesNeedNoReadAndSurviveInAnyOrder) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", std::string(8192, '.'));
  ASSERT_TRUE(h.store().flush());
  for (int i = 8191; i >= 0; i -= 3) h.write(f, static_cast<std::uint64_t>(i), "#");
  std::string expected(8192, '.');
  for (int i = 8191; i >= 0; i -= 3) expected[static_cast<std::size_t>(i)] = '#';
  EXPECT_EQ(h.read(f), expected);
  h.remount();
  EXPECT_EQ(h.read_path("f"), expected);
}

TEST(Data, IsReadFromTheDeviceAgainWhenTheCachesWereDropped) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", std::string(100'000, 'x'));
  std::string bytes(100'000, '.');
  const auto read = [&](Wait wait) {
    return code(h.tree().read(f, ByteOffset{0}, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}, wait));
  };
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(h.tree().drop_caches());
    EXPECT_EQ(read(Wait::no), EAGAIN);
    EXPECT_EQ(read(Wait::yes), 0);
    EXPECT_EQ(bytes, std::string(100'000, 'x'));
    EXPECT_TRUE(until([&] { return read(Wait::no) == 0; }));  // the tree's own thread may have the mutex for a moment
  }
}

TEST(Data, SizesReachAPebibyte) {
  Harness h;
  const Ino f = h.create(kRootIno, "f");
  const std::uint64_t far = (std::uint64_t{1} << 50) + 1;
  h.write(f, far, "!");
  EXPECT_EQ(h.attr(f).size, far + 1);
  EXPECT_EQ(h.read(f, far, 1), "!");
  EXPECT_EQ(code(h.tree().write(f, ByteOffset{kFileSizeMax}, as_bytes("!"), Wait::yes)), EFBIG);
  EXPECT_EQ(code(h.tree().setattr(f, {.size = kFileSizeMax + 1}, Wait::yes)), EFBIG);
  ASSERT_TRUE(h.tree().setattr(f, {.size = 1}, Wait::yes));
  EXPECT_EQ(h.attr(f).blocks, 0u);
  EXPECT_EQ(h.rows(Family::blocks), 0u);
}

TEST(Data, ReadsPastTheEndGiveNothing) {
  Harness h;
  const Ino f = h.create(kRootIno, "f", "abc");
  EXPECT_EQ(h.read(f, 3), "");
  EXPECT_EQ(h.read(f, 1), "bc");
}

TEST(Data, WritesToOtherKindsAreRefused) {
  Harness h;
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino p = h.make(kRootIno, "p", S_IFIFO | 0600);
  EXPECT_EQ(code(h.tree().write(d, ByteOffset{0}, as_bytes("x"), Wait::yes)), EISDIR);
  EXPECT_EQ(code(h.tree().write(p, ByteOffset{0}, as_bytes("x"), Wait::yes)), EINVAL);
  EXPECT_EQ(code(h.tree().setattr(d, {.size = 0}, Wait::yes)), EISDIR);
}

}  // namespace
}  // namespace lsmfs::test::data_test
