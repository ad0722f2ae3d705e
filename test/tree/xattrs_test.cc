#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <fmt/format.h>

#include "tree/harness.h"
#include "tree/record.h"

namespace lsmfs::test::xattrs_test {
namespace {

class Xattrs : public testing::Test {
 protected:
  int set(Ino ino, std::string_view name, std::string_view value, int flags = 0) {
    return code(both_ways([&](Wait w) { return h.tree().setxattr(ino, name, value, flags, w); }));
  }
  std::string get(Ino ino, std::string_view name) {
    const auto value = both_ways([&](Wait w) { return h.tree().getxattr(ino, name, w); });
    return value ? *value : fmt::format("errno {}", value.error().code);
  }
  int remove(Ino ino, std::string_view name) {
    return code(both_ways([&](Wait w) { return h.tree().removexattr(ino, name, w); }));
  }
  std::string names(Ino ino) {
    std::string out = *both_ways([&](Wait w) { return h.tree().listxattr(ino, w); });
    for (char& c : out) if (c == '\0') c = ' ';
    return out;
  }
  static std::string value(std::size_t size, char seed) {
    std::string out(size, seed);
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<char>(seed + static_cast<char>(i * 31 >> 4));
    return out;
  }

  Harness h;
};

TEST_F(Xattrs, OfAnySizeAreGivenBackThroughARemount) {
  const Ino f = h.create(kRootIno, "f", "data");
  const std::vector<std::size_t> sizes = {0, 1, kXattrInlineMax, kXattrInlineMax + 1, 4096, kXattrSizeMax};
  for (const std::size_t size : sizes) ASSERT_EQ(set(f, fmt::format("user.{:05}", size), value(size, 'a')), 0);
  EXPECT_EQ(set(f, "user.more", value(kXattrSizeMax + 1, 'a')), E2BIG);
  for (int round = 0; round < 2; ++round) {
    const Ino again = h.walk("f");
    for (const std::size_t size : sizes) EXPECT_EQ(get(again, fmt::format("user.{:05}", size)), value(size, 'a')) << size;
    EXPECT_EQ(names(again), "user.00000 user.00001 user.00256 user.00257 user.04096 user.65536 ");
    EXPECT_EQ(get(again, "user.none"), fmt::format("errno {}", ENODATA));
    h.remount();
  }
}

TEST_F(Xattrs, GrowIntoRowsAndShrinkBack) {
  const std::uint64_t before = h.rows(Family::names) + 1;  // and the file
  const Ino f = h.create(kRootIno, "f");
  for (const std::size_t size : {10, 5000, 60000, 20, 300, 0, 70}) {
    ASSERT_EQ(set(f, "user.x", value(size, 's')), 0);
    EXPECT_EQ(get(f, "user.x"), value(size, 's'));
    ASSERT_TRUE(h.tree().sync());
    EXPECT_EQ(h.rows(Family::names), before + (size > kXattrInlineMax)) << size;
    EXPECT_EQ(get(f, "user.x"), value(size, 's'));
  }
  // Many small ones together leave the record as well.
  for (int i = 0; i < 40; ++i) ASSERT_EQ(set(f, fmt::format("user.n{:02}", i), value(200, static_cast<char>(i))), 0);
  ASSERT_TRUE(h.tree().sync());
  EXPECT_GT(h.rows(Family::names), before + 30);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(get(f, fmt::format("user.n{:02}", i)), value(200, static_cast<char>(i)));
  for (int i = 0; i < 40; ++i) ASSERT_EQ(remove(f, fmt::format("user.n{:02}", i)), 0);
  ASSERT_EQ(remove(f, "user.x"), 0);
  EXPECT_EQ(remove(f, "user.x"), ENODATA);
  EXPECT_EQ(names(f), "");
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::names), before);
}

TEST_F(Xattrs, FlagsAndNamesAreChecked) {
  const Ino f = h.create(kRootIno, "f");
  EXPECT_EQ(set(f, "user.x", "1", XATTR_REPLACE), ENODATA);
  EXPECT_EQ(set(f, "user.x", "1", XATTR_CREATE), 0);
  EXPECT_EQ(set(f, "user.x", "2", XATTR_CREATE), EEXIST);
  EXPECT_EQ(set(f, "user.x", "2", XATTR_REPLACE), 0);
  EXPECT_EQ(get(f, "user.x"), "2");
  EXPECT_EQ(set(f, "user." + std::string(251, 'n'), "x"), ERANGE);
  EXPECT_EQ(set(f, "user." + std::string(250, 'n'), "x"), 0);
  EXPECT_EQ(set(f, "", "x"), EINVAL);
  // The names of one file fill what listxattr(2) can give, and no more.
  int n = 0, error = 0;
  while ((error = set(f, fmt::format("user.{}{:03}", std::string(200, 'n'), n), "")) == 0) ++n;
  EXPECT_EQ(error, ENOSPC);
  EXPECT_GT(both_ways([&](Wait w) { return h.tree().listxattr(f, w); })->size(), kXattrListMax - 300);
}

TEST_F(Xattrs, StayWithTheirFileThroughRenamesAndLinks) {
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino f = h.create(d, "f", std::string(10'000, 'f'));
  const Ino s = h.make(d, "s", S_IFLNK | 0777, "target");
  for (const Ino ino : {d, f, s}) {
    ASSERT_EQ(set(ino, "trusted.small", "small"), 0);
    ASSERT_EQ(set(ino, "trusted.large", value(3000, 'l')), 0);
  }
  ASSERT_TRUE(h.tree().rename(d, "f", kRootIno, "g", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(d, "s", kRootIno, "t", 0, Wait::yes));
  ASSERT_TRUE(h.tree().rename(kRootIno, "d", kRootIno, "e", 0, Wait::yes)) << "a directory that is empty but for them";
  ASSERT_TRUE(h.tree().link(f, d, "h", Wait::yes));
  for (int round = 0; round < 2; ++round) {
    for (const char* name : {"e", "g", "t", "e/h"}) {
      EXPECT_EQ(get(h.walk(name), "trusted.small"), "small") << name;
      EXPECT_EQ(get(h.walk(name), "trusted.large"), value(3000, 'l')) << name;
    }
    EXPECT_EQ(h.read_path("g"), std::string(10'000, 'f'));
    h.remount();
  }
}

TEST_F(Xattrs, GoWithTheirFile) {
  const std::uint64_t before = h.rows(Family::names);
  const Ino f = h.create(kRootIno, "f", "x");
  const Ino d = h.mkdir(kRootIno, "d");
  const Ino empty = h.create(kRootIno, "empty");
  for (const Ino ino : {f, d, empty}) ASSERT_EQ(set(ino, "user.large", value(50'000, 'x')), 0);
  ASSERT_TRUE(h.tree().sync());
  ASSERT_TRUE(h.tree().unlink(kRootIno, "f", Wait::yes));
  ASSERT_TRUE(h.tree().rmdir(kRootIno, "d", Wait::yes));
  ASSERT_TRUE(h.tree().unlink(kRootIno, "empty", Wait::yes));
  EXPECT_EQ(get(f, "user.large"), value(50'000, 'x')) << "somebody has it open";
  EXPECT_EQ(set(f, "user.other", value(1000, 'y')), 0);
  ASSERT_TRUE(h.tree().sync());
  h.crash();  // what was orphaned then is swept
  ASSERT_TRUE(h.tree().sync());
  EXPECT_EQ(h.rows(Family::names), before);
}

TEST_F(Xattrs, ChangeTheTimeOfChange) {
  const Ino f = h.create(kRootIno, "f");
  const Time made = h.attr(f).ctime;
  ASSERT_EQ(set(f, "user.x", "1"), 0);
  const Time changed = h.attr(f).ctime;
  EXPECT_GT(changed, made);
  EXPECT_EQ(h.attr(f).mtime, made);
  EXPECT_EQ(set(f, "user.x", "1"), 0) << "that is its value already";
  EXPECT_EQ(set(f, "user.x", "1", XATTR_CREATE), EEXIST);
  EXPECT_EQ(h.attr(f).ctime, changed) << "as on ext4";
  ASSERT_EQ(set(f, "user.x", "2"), 0);
  const Time other = h.attr(f).ctime;
  EXPECT_GT(other, changed);
  ASSERT_EQ(remove(f, "user.x"), 0);
  EXPECT_GT(h.attr(f).ctime, other);
}

}  // namespace
}  // namespace lsmfs::test::xattrs_test
