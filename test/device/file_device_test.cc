#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "lsmfs/device.h"

namespace lsmfs::file_device_test {
namespace {

// A directory of its own for each test; gone afterwards.
class FileDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/lsmfs-device-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string path(const std::string& name) const { return dir_ + "/" + name; }

  std::string dir_;
};

TEST_F(FileDeviceTest, KeepsWhatIsWrittenInAnImage) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{4 * MiB}));
  AlignedBuffer a(64 * KiB), b(64 * KiB);
  std::memset(a.data(), 42, a.size());
  {
    auto device = open_device(path("img"), Access::read_write, Sharing::exclusive);
    ASSERT_TRUE(device) << device.error().message();
    EXPECT_EQ((*device)->size().v, 4 * MiB);
    EXPECT_TRUE((*device)->writable());
    EXPECT_FALSE((*device)->is_block_device());
    EXPECT_EQ((*device)->path(), path("img"));
    ASSERT_TRUE((*device)->write(ByteOffset{MiB}, a.bytes()));
    ASSERT_TRUE((*device)->flush());
  }
  auto device = open_device(path("img"), Access::read_only, Sharing::shared);
  ASSERT_TRUE(device);
  ASSERT_TRUE((*device)->read(ByteOffset{MiB}, b.bytes()));
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size()), 0);
  ASSERT_TRUE((*device)->read(ByteOffset{0}, b.bytes()));
  EXPECT_EQ(b.data()[0], std::byte{0});
  EXPECT_FALSE((*device)->writable());
  EXPECT_FALSE((*device)->write(ByteOffset{MiB}, a.bytes()));
}

TEST_F(FileDeviceTest, IsLargerOnceItHasLookedAgain) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  auto device = open_device(path("img"), Access::read_write, Sharing::exclusive);
  ASSERT_TRUE(device) << device.error().message();
  ASSERT_TRUE(create_image(path("img"), ByteCount{3 * MiB + 1000}));
  EXPECT_EQ((*device)->size().v, MiB);
  AlignedBuffer a(kDeviceBlock);
  EXPECT_EQ((*device)->write(ByteOffset{2 * MiB}, a.bytes()).error().code, ENXIO);
  ASSERT_TRUE((*device)->look_again());
  EXPECT_EQ((*device)->size().v, 3 * MiB);
  EXPECT_TRUE((*device)->write(ByteOffset{2 * MiB}, a.bytes()));
  std::filesystem::resize_file(path("img"), 2 * MiB);
  ASSERT_TRUE((*device)->look_again());
  EXPECT_EQ((*device)->size().v, 2 * MiB);
  std::filesystem::resize_file(path("img"), MiB / 2);
  ASSERT_TRUE((*device)->look_again());
  EXPECT_EQ((*device)->size().v, MiB);
  EXPECT_EQ((*device)->read(ByteOffset{MiB / 2}, a.bytes()).error().code, EIO);
}

TEST_F(FileDeviceTest, WorksOnAFileSystemThatMayRefuseDirectIo) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no tmpfs to try";
  const std::string image = "/dev/shm/lsmfs-device-test-" + std::to_string(::getpid());
  ASSERT_TRUE(create_image(image, ByteCount{MiB}));
  {
    auto device = open_device(image, Access::read_write, Sharing::locked);
    ASSERT_TRUE(device) << device.error().message();
    AlignedBuffer a(kDeviceBlock);
    a.data()[5] = std::byte{9};
    EXPECT_TRUE((*device)->write(ByteOffset{0}, a.bytes()));
    EXPECT_TRUE((*device)->flush());
    a.data()[5] = std::byte{0};
    EXPECT_TRUE((*device)->read(ByteOffset{0}, a.bytes()));
    EXPECT_EQ(a.data()[5], std::byte{9});
  }
  ::unlink(image.c_str());
}

TEST_F(FileDeviceTest, GivesSpaceBackOnDiscard) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{4 * MiB}));
  auto device = open_device(path("img"), Access::read_write, Sharing::exclusive);
  ASSERT_TRUE(device);
  AlignedBuffer a(MiB);
  std::memset(a.data(), 1, a.size());
  ASSERT_TRUE((*device)->write(ByteOffset{0}, a.bytes()));
  ASSERT_TRUE((*device)->flush());
  const auto blocks = [&] {
    struct stat st;
    EXPECT_EQ(::stat(path("img").c_str(), &st), 0);
    return static_cast<std::uint64_t>(st.st_blocks) * 512;
  };
  ASSERT_GE(blocks(), MiB);
  auto r = (*device)->discard(ByteOffset{0}, ByteCount{MiB});
  EXPECT_TRUE(r) << r.error().message();
  EXPECT_LT(blocks(), 64 * KiB);
  EXPECT_EQ((*device)->size().v, 4 * MiB);
  EXPECT_EQ(std::filesystem::file_size(path("img")), 4 * MiB);
}

TEST_F(FileDeviceTest, SaysWhyItCannotBeOpened) {
  EXPECT_EQ(open_device(path("none"), Access::read_only, Sharing::shared).error().code, ENOENT);
  EXPECT_EQ(open_device(dir_, Access::read_only, Sharing::shared).error().code, ENOTBLK);
  EXPECT_EQ(open_device("/dev/null", Access::read_write, Sharing::exclusive).error().code, ENOTBLK);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_device(path("fifo"), Access::read_only, Sharing::shared).error().code, ENOTBLK);
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(path("img").c_str(), 0400), 0);
    EXPECT_EQ(open_device(path("img"), Access::read_write, Sharing::shared).error().code, EACCES);
  }
}

TEST_F(FileDeviceTest, HasOneHolderOfTheLockAtATime) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  auto first = open_device(path("img"), Access::read_write, Sharing::locked);
  ASSERT_TRUE(first);
  EXPECT_EQ(open_device(path("img"), Access::read_write, Sharing::locked).error().code, EBUSY);
  EXPECT_EQ(open_device(path("img"), Access::read_write, Sharing::exclusive).error().code, EBUSY);
  EXPECT_TRUE(open_device(path("img"), Access::read_only, Sharing::shared));
  first->reset();
  EXPECT_TRUE(open_device(path("img"), Access::read_write, Sharing::exclusive));
}

TEST_F(FileDeviceTest, RoundsTheSizeDownToBlocks) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB + 1000}));
  auto device = open_device(path("img"), Access::read_only, Sharing::shared);
  ASSERT_TRUE(device);
  EXPECT_EQ((*device)->size().v, MiB);
  ASSERT_TRUE(create_image(path("empty"), ByteCount{0}));
  auto empty = open_device(path("empty"), Access::read_only, Sharing::shared);
  ASSERT_TRUE(empty);
  EXPECT_EQ((*empty)->size().v, 0u);
}

TEST_F(FileDeviceTest, SaysWhenTheImageHasBecomeShorter) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  auto device = open_device(path("img"), Access::read_only, Sharing::shared);
  ASSERT_TRUE(device);
  ASSERT_EQ(::truncate(path("img").c_str(), 64 * KiB), 0);
  AlignedBuffer a(128 * KiB);
  EXPECT_EQ((*device)->read(ByteOffset{0}, a.bytes()).error().code, EIO);
}

TEST_F(FileDeviceTest, MakesAndGrowsImagesButNeverShrinksOrTruncatesThem) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{10 * GiB}));
  struct stat st;
  ASSERT_EQ(::stat(path("img").c_str(), &st), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(st.st_size), 10 * GiB);
  EXPECT_LT(static_cast<std::uint64_t>(st.st_blocks) * 512, MiB);  // sparse
  EXPECT_EQ(st.st_mode & 077, 0u);
  std::ofstream(path("old")) << "contents";
  ASSERT_TRUE(create_image(path("old"), ByteCount{4}));
  EXPECT_EQ(std::filesystem::file_size(path("old")), 8u);
  ASSERT_TRUE(create_image(path("old"), ByteCount{MiB}));
  EXPECT_EQ(std::filesystem::file_size(path("old")), MiB);
  std::string text(8, '\0');
  std::ifstream(path("old")).read(text.data(), 8);
  EXPECT_EQ(text, "contents");
  EXPECT_FALSE(create_image(dir_, ByteCount{MiB}));
  EXPECT_EQ(create_image(path("huge"), ByteCount{UINT64_MAX}).error().code, EFBIG);
}

TEST_F(FileDeviceTest, AnImageThatMayNotExistYetIsMadeOnceAndOnlyWhole) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}, Existing::refuse));
  struct stat st;
  ASSERT_EQ(::stat(path("img").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 077, 0u);
  EXPECT_EQ(create_image(path("img"), ByteCount{2 * MiB}, Existing::refuse).error().code, EEXIST);
  EXPECT_EQ(std::filesystem::file_size(path("img")), MiB);
  ASSERT_EQ(::symlink(path("elsewhere").c_str(), path("link").c_str()), 0);
  EXPECT_EQ(create_image(path("link"), ByteCount{MiB}, Existing::refuse).error().code, EEXIST);
  EXPECT_FALSE(std::filesystem::exists(path("elsewhere")));
  EXPECT_EQ(create_image(path("huge"), ByteCount{UINT64_MAX}, Existing::refuse).error().code, EFBIG);
  EXPECT_FALSE(std::filesystem::exists(path("huge")));
}

TEST_F(FileDeviceTest, OnlyFilesAndBlockDevicesAreOpenedToLook) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  EXPECT_TRUE(open_to_look(path("img")));
  ASSERT_EQ(::symlink("img", path("link").c_str()), 0);
  EXPECT_TRUE(open_to_look(path("link")));
  EXPECT_EQ(open_to_look(path("none")).error().code, ENOENT);
  EXPECT_EQ(open_to_look(dir_).error().code, ENOTBLK);
  EXPECT_EQ(open_to_look("/dev/null").error().code, ENOTBLK);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(open_to_look(path("fifo")).error().code, ENOTBLK);
}

TEST_F(FileDeviceTest, ItsDescriptorLeadsToWhatIsOpenWhateverThePathLeadsTo) {
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  auto device = open_device(path("img"), Access::read_only, Sharing::shared);
  ASSERT_TRUE(device);
  ASSERT_EQ(::rename(path("img").c_str(), path("moved").c_str()), 0);
  ASSERT_TRUE(create_image(path("img"), ByteCount{MiB}));
  struct stat opened, moved;
  ASSERT_EQ(::fstat((*device)->descriptor(), &opened), 0);
  ASSERT_EQ(::stat(path("moved").c_str(), &moved), 0);
  EXPECT_EQ(opened.st_ino, moved.st_ino);
}

}  // namespace
}  // namespace lsmfs::file_device_test
