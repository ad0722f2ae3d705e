#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "lsmfs/device.h"

namespace lsmfs::memory_device_test {
namespace {

TEST(AlignedBuffer, IsAlignedZeroAndWholeBlocks) {
  AlignedBuffer b(5000);
  EXPECT_EQ(b.size(), 8192u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % kDeviceBlock, 0u);
  for (std::byte x : b.bytes()) ASSERT_EQ(x, std::byte{0});
  EXPECT_EQ(AlignedBuffer().size(), 0u);
  AlignedBuffer moved = std::move(b);
  EXPECT_EQ(moved.size(), 8192u);
}

TEST(MemoryDevice, GivesZerosAndThenWhatWasWritten) {
  auto device = memory_device(ByteCount{MiB + 100});
  EXPECT_EQ(device->size().v, MiB);
  AlignedBuffer a(kDeviceBlock), b(kDeviceBlock);
  std::memset(b.data(), 1, b.size());
  ASSERT_TRUE(device->read(ByteOffset{MiB - kDeviceBlock}, b.bytes()));
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  std::memset(a.data(), 7, a.size());
  ASSERT_TRUE(device->write(ByteOffset{MiB - kDeviceBlock}, a.bytes()));
  ASSERT_TRUE(device->flush());
  ASSERT_TRUE(device->read(ByteOffset{MiB - kDeviceBlock}, b.bytes()));
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  ASSERT_TRUE(device->discard(ByteOffset{0}, ByteCount{MiB}));
  ASSERT_TRUE(device->read(ByteOffset{MiB - kDeviceBlock}, b.bytes()));
  EXPECT_NE(std::memcmp(a.data(), b.data(), a.size()), 0);
}

TEST(MemoryDevice, GivesZerosBetweenWhatWasWritten) {
  auto device = memory_device(ByteCount{MiB});
  AlignedBuffer whole(MiB), expected(MiB);
  for (const std::size_t block : {0, 3, 4, 200}) {
    const MutableBytes bytes = expected.bytes().subspan(block * kDeviceBlock, kDeviceBlock);
    std::memset(bytes.data(), static_cast<int>(block + 1), bytes.size());
    ASSERT_TRUE(device->write(ByteOffset{block * kDeviceBlock}, bytes));
  }
  for (const std::size_t from : {0, 1, 4, 255}) {
    std::memset(whole.data(), 0xff, whole.size());
    const MutableBytes bytes = whole.bytes().subspan(from * kDeviceBlock);
    ASSERT_TRUE(device->read(ByteOffset{from * kDeviceBlock}, bytes));
    EXPECT_EQ(std::memcmp(bytes.data(), expected.data() + from * kDeviceBlock, bytes.size()), 0) << from;
  }
}

TEST(MemoryDevice, RefusesWhatIsNotAlignedOrPastTheEnd) {
  auto device = memory_device(ByteCount{MiB});
  AlignedBuffer a(2 * kDeviceBlock);
  EXPECT_EQ(device->read(ByteOffset{1}, a.bytes()).error().code, EINVAL);
  EXPECT_EQ(device->read(ByteOffset{0}, a.bytes().first(100)).error().code, EINVAL);
  EXPECT_EQ(device->read(ByteOffset{0}, a.bytes().subspan(512, kDeviceBlock)).error().code, EINVAL);
  EXPECT_EQ(device->read(ByteOffset{MiB - kDeviceBlock}, a.bytes()).error().code, ENXIO);
  EXPECT_EQ(device->write(ByteOffset{MiB}, a.bytes()).error().code, ENXIO);
  EXPECT_EQ(device->write(ByteOffset{UINT64_MAX - kDeviceBlock + 1}, a.bytes()).error().code, ENXIO);
  EXPECT_EQ(device->discard(ByteOffset{0}, ByteCount{MiB + kDeviceBlock}).error().code, ENXIO);
}

TEST(HookedDevice, SeesEveryRequestAndCanRefuseIt) {
  auto memory = memory_device(ByteCount{MiB});
  std::vector<DeviceEvent::Kind> seen;
  bool refuse = false;
  std::size_t bytes = 0;
  auto device = hooked_device(*memory, [&](const DeviceEvent& event, Bytes data) -> Result<void> {
    seen.push_back(event.kind);
    bytes += data.size();
    if (refuse) return make_error(EREMOTEIO, "no");
    return {};
  });
  AlignedBuffer a(kDeviceBlock);
  std::memset(a.data(), 7, a.size());
  ASSERT_TRUE(device->write(ByteOffset{0}, a.bytes()));
  ASSERT_TRUE(device->flush());
  refuse = true;
  std::memset(a.data(), 8, a.size());
  EXPECT_EQ(device->write(ByteOffset{0}, a.bytes()).error().code, EREMOTEIO);
  refuse = false;
  ASSERT_TRUE(device->read(ByteOffset{0}, a.bytes()));
  EXPECT_EQ(a.data()[0], std::byte{7});
  ASSERT_TRUE(device->discard(ByteOffset{0}, ByteCount{kDeviceBlock}));
  using K = DeviceEvent::Kind;
  EXPECT_EQ(seen, (std::vector<K>{K::write, K::flush, K::write, K::read, K::discard}));
  EXPECT_EQ(bytes, 2 * kDeviceBlock);
  EXPECT_EQ(device->size(), memory->size());
}

}  // namespace
}  // namespace lsmfs::memory_device_test
