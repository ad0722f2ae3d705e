#include <gtest/gtest.h>

#include <fmt/format.h>

#include <random>

#include "tree/harness.h"

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

TEST(Space, FilesInUseAreCounted) {
  Harness h;
  h.create(kRootIno, "a");
  h.mkdir(kRootIno, "b");
  const SpaceInfo s = h.tree().space();
  EXPECT_EQ(s.files, 3u);
  EXPECT_GT(s.total.v, 0u);
  EXPECT_LE(s.free.v, s.total.v);
}

}  // namespace
}  // namespace lsmfs::test::space_test
