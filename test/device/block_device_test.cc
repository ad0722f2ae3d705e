// What only a block device shows, on a loop device. Skipped where none can be made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstring>

#include "lsmfs/device.h"

namespace lsmfs {
namespace {

class BlockDeviceTest : public ::testing::Test {
 protected:
  // The loop device goes away by itself when the last descriptor is closed, also after a crash.
  void attach(unsigned flags) {
    std::string pattern = ::testing::TempDir() + "/lsmfs-loop-XXXXXX";
    const int file = ::mkstemp(pattern.data());
    ASSERT_GE(file, 0);
    ::unlink(pattern.c_str());
    ASSERT_EQ(::ftruncate(file, 8 * MiB), 0);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    for (int tries = 0; control >= 0 && tries < 20 && loop_ < 0; ++tries) {
      const int number = ::ioctl(control, LOOP_CTL_GET_FREE);
      if (number < 0) break;
      path_ = "/dev/loop" + std::to_string(number);
      const int fd = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) break;
      loop_config config{};
      config.fd = static_cast<unsigned>(file);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR | flags;
      if (::ioctl(fd, LOOP_CONFIGURE, &config) == 0) {
        loop_ = fd;
      } else {
        ::close(fd);  // somebody else was faster
      }
    }
    if (control >= 0) ::close(control);
    ::close(file);
    if (loop_ < 0) GTEST_SKIP() << "no loop device can be made here";
  }
  void TearDown() override {
    if (loop_ >= 0) ::close(loop_);
  }

  int loop_ = -1;
  std::string path_;
};

TEST_F(BlockDeviceTest, IsReadWrittenFlushedAndDiscarded) {
  attach(0);
  if (IsSkipped()) return;
  auto device = open_device(path_, Access::read_write, Sharing::exclusive);
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_TRUE((*device)->is_block_device());
  EXPECT_EQ((*device)->size().v, 8 * MiB);
  AlignedBuffer a(64 * KiB), b(64 * KiB);
  std::memset(a.data(), 5, a.size());
  ASSERT_TRUE((*device)->write(ByteOffset{MiB}, a.bytes()));
  ASSERT_TRUE((*device)->flush());
  ASSERT_TRUE((*device)->read(ByteOffset{MiB}, b.bytes()));
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  auto r = (*device)->discard(ByteOffset{0}, ByteCount{8 * MiB});
  EXPECT_TRUE(r) << r.error().message();
}

TEST_F(BlockDeviceTest, BelongsToOneExclusiveUser) {
  attach(0);
  if (IsSkipped()) return;
  auto first = open_device(path_, Access::read_write, Sharing::exclusive);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(open_device(path_, Access::read_write, Sharing::exclusive).error().code, EBUSY);
  EXPECT_EQ(open_device(path_, Access::read_write, Sharing::locked).error().code, EBUSY);
  EXPECT_TRUE(open_device(path_, Access::read_only, Sharing::shared));
}

TEST_F(BlockDeviceTest, SaysThatItIsReadOnly) {
  attach(LO_FLAGS_READ_ONLY);
  if (IsSkipped()) return;
  auto writing = open_device(path_, Access::read_write, Sharing::exclusive);
  ASSERT_FALSE(writing);
  EXPECT_EQ(writing.error().code, EROFS);
  EXPECT_NE(writing.error().message().find("read-only"), std::string::npos);
  EXPECT_TRUE(open_device(path_, Access::read_only, Sharing::locked));
}

}  // namespace
}  // namespace lsmfs
