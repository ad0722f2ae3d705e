// What the kernel says of a sector that is lost, and what becomes of it; and what is none, though it cannot be read either.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <seccomp.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "lsmfs/device.h"

namespace lsmfs::bad_sectors_test {
namespace {

constexpr int kLost[] = {EIO, ENODATA, EILSEQ, EBADMSG, EREMOTEIO};
constexpr int kUnreachable[] = {ETIMEDOUT, ENOLINK, ENODEV};
constexpr ByteOffset kBad{64 * KiB};

// Does `work` in a thread whose system calls of that number, at kBad if they are for a place, fail with `code`. False: the
// kernel does not let it.
template <class Work>
bool where_it_fails(int call, int code, Work work) {
  bool loaded = false;
  std::thread([&] {
    const scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    const scmp_arg_cmp there = SCMP_A3(SCMP_CMP_EQ, kBad.v);
    const bool placed = call == SCMP_SYS(pread64) || call == SCMP_SYS(pwrite64);
    loaded = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(static_cast<unsigned>(code)), call, placed ? 1 : 0, &there) == 0 &&
             seccomp_load(filter) == 0;
    seccomp_release(filter);
    if (loaded) work();
  }).join();
  return loaded;
}

class BadSectors : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/lsmfs-device-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    ASSERT_TRUE(create_image(dir_ + "/img", ByteCount{MiB}));
    auto device = open_device(dir_ + "/img", Access::read_write, Sharing::exclusive);
    ASSERT_TRUE(device) << device.error().message();
    device_ = std::move(*device);
    fill(blocks_, 7);
    ASSERT_TRUE(device_->write(kBad, blocks_.bytes()));
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static void fill(AlignedBuffer& buffer, int with) { std::memset(buffer.data(), with, buffer.size()); }
  // What is on the device now, a number for each block.
  std::vector<int> contents() {
    EXPECT_TRUE(device_->read(kBad, blocks_.bytes()));
    std::vector<int> numbers;
    for (std::size_t at = 0; at < blocks_.size(); at += kDeviceBlock) numbers.push_back(static_cast<int>(blocks_.data()[at]));
    return numbers;
  }

  std::string dir_;
  std::unique_ptr<Device> device_;
  AlignedBuffer blocks_{3 * kDeviceBlock};
};

TEST_F(BadSectors, HaveOneNameWhateverTheKernelCallsThem) {
  for (const int code : kLost) {
    const bool looked = where_it_fails(SCMP_SYS(pread64), code, [&] {
      const auto read = device_->read(kBad, blocks_.bytes());
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, EIO) << std::strerror(code);
      EXPECT_NE(read.error().message().find(std::strerror(code)), std::string::npos) << read.error().message();
    });
    if (!looked) GTEST_SKIP() << "no system call can be made to fail here";
  }
}

TEST_F(BadSectors, AreZerosForThoseWhoSaveTheRest) {
  for (const int code : kLost) {
    fill(blocks_, 7);
    ASSERT_TRUE(device_->write(kBad, blocks_.bytes()));
    std::vector<std::uint64_t> said;
    const auto salvaging = salvaging_device(*device_, [&](ByteOffset at) { said.push_back(at.v); });
    const bool looked = where_it_fails(SCMP_SYS(pread64), code, [&] { EXPECT_TRUE(salvaging->read(kBad, blocks_.bytes())); });
    if (!looked) GTEST_SKIP() << "no system call can be made to fail here";
    EXPECT_EQ(said, std::vector<std::uint64_t>{kBad.v}) << std::strerror(code);
    EXPECT_EQ(contents(), (std::vector<int>{0, 7, 7})) << std::strerror(code);
  }
}

TEST_F(BadSectors, AreNoneWhenTheWayToTheDeviceFails) {
  for (const int code : kUnreachable) {
    const auto salvaging = salvaging_device(*device_, [&](ByteOffset at) { ADD_FAILURE() << at.v; });
    const bool looked = where_it_fails(SCMP_SYS(pread64), code, [&] {
      const auto read = salvaging->read(kBad, blocks_.bytes());
      ASSERT_FALSE(read);
      EXPECT_EQ(read.error().code, code) << std::strerror(code);
    });
    if (!looked) GTEST_SKIP() << "no system call can be made to fail here";
    EXPECT_EQ(contents(), (std::vector<int>{7, 7, 7})) << std::strerror(code);
  }
}

TEST_F(BadSectors, FailOtherRequestsTheSameWayAndSoDoesADeviceWithoutRoom) {
  const auto expect_io_error = [](const Result<void>& done, int code) {
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, EIO) << std::strerror(code);
    EXPECT_NE(done.error().message().find(std::strerror(code)), std::string::npos) << done.error().message();
  };
  for (const int code : {ENODATA, EREMOTEIO, ENOSPC}) {
    const bool looked =
        where_it_fails(SCMP_SYS(pwrite64), code, [&] { expect_io_error(device_->write(kBad, blocks_.bytes()), code); }) &&
        where_it_fails(SCMP_SYS(fdatasync), code, [&] { expect_io_error(device_->flush(), code); }) &&
        where_it_fails(SCMP_SYS(fallocate), code, [&] { expect_io_error(device_->discard(kBad, ByteCount{kDeviceBlock}), code); });
    if (!looked) GTEST_SKIP() << "no system call can be made to fail here";
  }
}

// With others it cannot be read; alone it cannot be reached.
TEST(SalvagingDevice, GivesUpNothingThatItCouldNotLookAt) {
  const auto memory = memory_device(ByteCount{MiB});
  AlignedBuffer blocks(3 * kDeviceBlock);
  std::memset(blocks.data(), 7, blocks.size());
  ASSERT_TRUE(memory->write(kBad, blocks.bytes()));
  const auto failing = hooked_device(*memory, [](const DeviceEvent& event, Bytes) -> Result<void> {
    if (event.kind != DeviceEvent::Kind::read) return {};
    return make_error(event.length.v > kDeviceBlock ? EIO : ETIMEDOUT, "no");
  });
  const auto salvaging = salvaging_device(*failing, [](ByteOffset at) { ADD_FAILURE() << at.v; });
  EXPECT_EQ(salvaging->read(kBad, blocks.bytes()).error().code, ETIMEDOUT);
  ASSERT_TRUE(memory->read(kBad, blocks.bytes()));
  EXPECT_EQ(blocks.data()[0], std::byte{7});
}

}  // namespace
}  // namespace lsmfs::bad_sectors_test
