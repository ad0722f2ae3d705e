#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "lsmfs/device.h"

namespace lsmfs::test::metered_device_test {
namespace {

TEST(MeteredDevice, CountsByTheInnermostCauseWhatSucceeds) {
  const auto device = metered_device(memory_device(ByteCount{MiB}));
  AlignedBuffer buffer(8192);
  ASSERT_TRUE(device->read(ByteOffset{0}, buffer.bytes()));
  {
    const IoFor log(IoCause::log);
    ASSERT_TRUE(device->write(ByteOffset{0}, buffer.bytes()));
    {
      const IoFor metadata(IoCause::metadata);
      ASSERT_TRUE(device->write(ByteOffset{0}, Bytes(buffer.bytes()).first(4096)));
    }
    ASSERT_TRUE(device->write(ByteOffset{0}, buffer.bytes()));
    EXPECT_FALSE(device->write(ByteOffset{MiB}, buffer.bytes()));
    EXPECT_FALSE(device->read(ByteOffset{MiB}, buffer.bytes()));
  }
  ASSERT_TRUE(device->flush());
  ASSERT_TRUE(device->discard(ByteOffset{0}, ByteCount{65536}));

  const DeviceStats stats = device->stats();
  EXPECT_EQ(stats.of(IoCause::other).read_bytes, 8192u);
  EXPECT_EQ(stats.of(IoCause::log).written_bytes, 16384u);
  EXPECT_EQ(stats.of(IoCause::log).writes, 2u);
  EXPECT_EQ(stats.of(IoCause::log).reads, 0u);
  EXPECT_EQ(stats.of(IoCause::metadata).written_bytes, 4096u);
  EXPECT_EQ(stats.sum().written_bytes, 20480u);
  EXPECT_EQ(stats.sum().reads, 1u);
  EXPECT_EQ(stats.read.count(), 1u);
  EXPECT_EQ(stats.write.count(), 3u);
  EXPECT_EQ(stats.flush.count(), 1u);
  EXPECT_EQ(stats.discarded_bytes, 65536u);
}

// What it does not pass on would be the default of a device that cannot grow.
TEST(MeteredDevice, GrowsAndShrinksWithTheOneBelow) {
  char path[] = "/tmp/lsmfs-metered-XXXXXX";
  const Fd image(mkstemp(path));
  ASSERT_EQ(ftruncate(image.get(), MiB), 0);
  auto below = open_device(path, Access::read_write, Sharing::shared);
  ASSERT_TRUE(below);
  const auto device = metered_device(std::move(*below));
  EXPECT_EQ(device->size(), ByteCount{MiB});
  ASSERT_TRUE(device->set_size(ByteCount{2 * MiB}));
  EXPECT_EQ(device->size(), ByteCount{2 * MiB});
  ASSERT_EQ(ftruncate(image.get(), 3 * MiB), 0);
  ASSERT_TRUE(device->look_again());
  EXPECT_EQ(device->size(), ByteCount{3 * MiB});
  unlink(path);
}

}  // namespace
}  // namespace lsmfs::test::metered_device_test
