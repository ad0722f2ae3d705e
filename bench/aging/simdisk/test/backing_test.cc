#include "simdisk/backing.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "image.h"

namespace lsmfs::simdisk::backing_test {
namespace {

constexpr std::size_t kSize = 64 * KiB;

std::vector<std::byte> random_bytes(std::mt19937& random, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(SimdiskBacking, TakesRequestsOfAnyAlignment) {
  Backing backing(image(kSize));
  std::vector<std::byte> model(kSize);
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t unit = std::array<std::uint64_t, 3>{1, 512, 4096}[random() % 3];
    const std::uint64_t offset = random() % (kSize / unit) * unit;
    const std::uint64_t length = std::min<std::uint64_t>(random() % (12 * KiB / unit) * unit + unit, kSize - offset);
    const auto begin = model.begin() + static_cast<std::ptrdiff_t>(offset);
    std::vector<std::byte> data(length);
    switch (random() % 3) {
      case 0:
        data = random_bytes(random, length);
        ASSERT_TRUE(backing.write(ByteOffset{offset}, data));
        std::copy(data.begin(), data.end(), begin);
        break;
      case 1:
        ASSERT_TRUE(backing.discard(ByteOffset{offset}, ByteCount{length}));
        std::fill_n(begin, length, std::byte{0});
        break;
      default:
        ASSERT_TRUE(backing.read(ByteOffset{offset}, data));
        ASSERT_TRUE(std::equal(data.begin(), data.end(), begin)) << offset << " " << length;
    }
  }
}

TEST(SimdiskBacking, WritersOfOneBlockDoNotUndoEachOther) {
  Backing backing(image(kDeviceBlock));
  const auto work = [&](std::uint64_t sector) {
    for (int i = 1; i <= 200; ++i) {
      const std::vector<std::byte> data(512, static_cast<std::byte>(i));
      ASSERT_TRUE(backing.write(ByteOffset{sector * 512}, data));
    }
  };
  std::thread other(work, 0);
  work(7);
  other.join();
  std::vector<std::byte> block(kDeviceBlock);
  ASSERT_TRUE(backing.read(ByteOffset{0}, block));
  EXPECT_EQ(block[0], std::byte{200});
  EXPECT_EQ(block[7 * 512], std::byte{200});
  EXPECT_EQ(block[3 * 512], std::byte{0});
}

}  // namespace
}  // namespace lsmfs::simdisk::backing_test
