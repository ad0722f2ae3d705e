// What only a block device shows, on a loop device. Skipped where none can be made.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <future>

#include "clock.h"
#include "lsmfs/device.h"

namespace lsmfs::block_device_test {
namespace {

class BlockDeviceTest : public ::testing::Test {
 protected:
  // The loop device goes away by itself when the last descriptor is closed, also after a crash.
  void attach(unsigned flags) {
    std::string pattern = ::testing::TempDir() + "/lsmfs-loop-XXXXXX";
    const int file = ::mkstemp(pattern.data());
    ASSERT_GE(file, 0);
    ::unlink(pattern.c_str());
    attach(flags, file);
  }
  void attach(unsigned flags, int file) {
    file_ = file;
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
    if (loop_ < 0) GTEST_SKIP() << "no loop device can be made here";
  }
  void TearDown() override {
    if (loop_ >= 0) ::close(loop_);
    if (file_ >= 0) ::close(file_);
  }

  // Returns when the lock is waited for.
  void begin_to_open(Sharing sharing) {
    opened_ = std::async(std::launch::async, [this, sharing] { return open_device(path_, Access::read_write, sharing, clock_); });
    EXPECT_TRUE(clock_.await_waiting(1));
  }

  test::SteppedClock clock_;
  std::future<Result<std::unique_ptr<Device>>> opened_;
  int loop_ = -1;
  int file_ = -1;  // below it
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

TEST_F(BlockDeviceTest, GivesSpaceBackOnDiscard) {
  attach(0);
  if (IsSkipped()) return;
  auto device = open_device(path_, Access::read_write, Sharing::locked);
  ASSERT_TRUE(device) << device.error().message();
  AlignedBuffer a(4 * MiB), b(4 * MiB);
  std::memset(a.data(), 5, a.size());
  ASSERT_TRUE((*device)->write(ByteOffset{0}, a.bytes()));
  ASSERT_TRUE((*device)->flush());
  const auto blocks = [&] {
    struct stat st;
    EXPECT_EQ(::fstat(file_, &st), 0);
    return static_cast<std::uint64_t>(st.st_blocks) * 512;
  };
  const std::uint64_t before = blocks();
  ASSERT_GE(before, 4 * MiB);
  const auto r = (*device)->discard(ByteOffset{MiB}, ByteCount{2 * MiB});
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_LE(blocks(), before - 2 * MiB);
}

TEST_F(BlockDeviceTest, ThatCannotDiscardSaysSoAndKeepsItsContents) {
  // Files of a ramfs have no holes. Nobody else sees this one, and it goes with its descriptor.
  const int context = ::fsopen("ramfs", FSOPEN_CLOEXEC);
  if (context < 0) GTEST_SKIP() << "no file system can be mounted here";
  ASSERT_EQ(::fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0), 0);
  const int root = ::fsmount(context, FSMOUNT_CLOEXEC, 0);
  ::close(context);
  ASSERT_GE(root, 0);
  const int file = ::openat(root, "image", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  const std::string image = "/proc/self/fd/" + std::to_string(root) + "/image";
  attach(0, file);
  if (IsSkipped()) return;
  for (const std::string& path : {image, path_}) {
    auto device = open_device(path, Access::read_write, Sharing::locked);
    ASSERT_TRUE(device) << device.error().message();
    EXPECT_EQ((*device)->is_block_device(), path == path_);
    AlignedBuffer a(4 * MiB), b(4 * MiB);
    std::memset(a.data(), 5, a.size());
    ASSERT_TRUE((*device)->write(ByteOffset{0}, a.bytes()));
    EXPECT_EQ((*device)->discard(ByteOffset{0}, ByteCount{4 * MiB}).error().code, EOPNOTSUPP);
    ASSERT_TRUE((*device)->read(ByteOffset{0}, b.bytes()));
    EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  }
  ::close(root);
}

TEST_F(BlockDeviceTest, BelongsToOneExclusiveUser) {
  attach(0);
  if (IsSkipped()) return;
  auto first = open_device(path_, Access::read_write, Sharing::exclusive);
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(open_device(path_, Access::read_write, Sharing::exclusive).error().code, EBUSY);
  begin_to_open(Sharing::locked);
  clock_.advance(std::chrono::seconds(1));
  EXPECT_EQ(opened_.get().error().code, EBUSY);
  EXPECT_TRUE(open_device(path_, Access::read_only, Sharing::shared));
}

// As by udev, which takes one whenever somebody closes a block device that was open for writing.
TEST_F(BlockDeviceTest, ALockThatIsHeldForAMomentIsWaitedFor) {
  attach(0);
  if (IsSkipped()) return;
  ASSERT_EQ(::flock(loop_, LOCK_SH | LOCK_NB), 0);
  begin_to_open(Sharing::locked);
  ASSERT_TRUE(clock_.step(std::chrono::milliseconds(500)));
  ASSERT_EQ(::flock(loop_, LOCK_EX), 0);  // whoever else had it, too
  ASSERT_EQ(::flock(loop_, LOCK_UN), 0);
  clock_.advance(std::chrono::milliseconds(20));
  EXPECT_TRUE(opened_.get());
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
}  // namespace lsmfs::block_device_test
