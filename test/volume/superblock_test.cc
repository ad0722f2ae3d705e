#include "volume/superblock.h"

#include <gtest/gtest.h>

#include <random>

#include "clock.h"
#include "volume/catalog.h"
#include "volume/metadata_log.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::superblock_test {
namespace {

using test::ok;
using test::SparseDevice;
using test::SparseImage;

class SuperblockTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kSize = 200 * MiB;
  static constexpr std::uint64_t kSecond = 199 * MiB;

  void SetUp() override { ASSERT_TRUE(ok(Volume::format(device_, {"a label", Uuid::random()}))); }

  Result<VolumeInfo> info(Device& device) {
    notices_.clear();
    return read_volume_info(device, {[this](std::string_view s) { notices_.emplace_back(s); }});
  }
  format::Superblock load(std::uint64_t at) {
    AlignedBuffer buffer(kDeviceBlock);
    EXPECT_TRUE(ok(device_.read(ByteOffset{at}, buffer.bytes())));
    format::Superblock block;
    std::memcpy(&block, buffer.data(), sizeof block);
    return block;
  }
  void store(std::uint64_t at, const format::Superblock& block) {
    AlignedBuffer buffer(kDeviceBlock);
    std::memcpy(buffer.data(), &block, sizeof block);
    EXPECT_TRUE(ok(device_.write(ByteOffset{at}, buffer.bytes())));
  }
  static void reseal(format::Superblock& block) {
    block.checksum = 0;
    block.checksum = checksum({reinterpret_cast<const std::byte*>(&block), sizeof block});
  }

  // Both copies, with a right checksum.
  void change(const std::function<void(format::Superblock&)>& change) {
    for (const std::uint64_t at : {std::uint64_t{0}, kSecond}) {
      auto block = load(at);
      change(block);
      reseal(block);
      store(at, block);
    }
  }

  SparseDevice device_{SparseImage(kSize)};
  std::vector<std::string> notices_;
};

TEST_F(SuperblockTest, SaysWhatFormatWasTold) {
  test::SteppedClock clock;
  ASSERT_TRUE(ok(Volume::format(device_, {.label = "a label", .clock = &clock, .made_by = "1.2.3"})));
  auto got = info(device_);
  ASSERT_TRUE(ok(got));
  EXPECT_EQ(got->label, "a label");
  EXPECT_EQ(got->version, kFormatVersion);
  EXPECT_EQ(got->made_by, "1.2.3");
  EXPECT_EQ(got->features, Features{});
  EXPECT_EQ(got->device_size.v, kSize);
  EXPECT_EQ(got->created_ns, clock.wall().time_since_epoch() / std::chrono::nanoseconds(1));
  EXPECT_TRUE(notices_.empty());
}

TEST_F(SuperblockTest, SurvivesEveryFlippedByteOfTheFirstCopy) {
  const auto whole = load(0);
  for (std::size_t i = 0; i < sizeof whole; ++i) {
    auto block = whole;
    reinterpret_cast<unsigned char*>(&block)[i] ^= 1 << (i % 8);
    store(0, block);
    auto got = info(device_);
    ASSERT_TRUE(ok(got)) << "byte " << i;
    ASSERT_EQ(got->label, "a label");
    ASSERT_EQ(notices_.size(), 1u) << "byte " << i;
    ASSERT_NE(notices_[0].find("second copy"), std::string::npos);
  }
}

TEST_F(SuperblockTest, SaysThatTheSecondCopyIsDamaged) {
  auto block = load(kSecond);
  block.label[0] ^= 1;
  store(kSecond, block);
  ASSERT_TRUE(ok(info(device_)));
  EXPECT_EQ(notices_.size(), 1u);
}

TEST_F(SuperblockTest, IsDamagedWhenBothCopiesAre) {
  auto block = load(0);
  block.label[0] ^= 1;
  store(0, block);
  store(kSecond, block);
  EXPECT_EQ(info(device_).error().code, EUCLEAN);
  EXPECT_EQ(Volume::open(device_).error().code, EUCLEAN);
  store(0, format::Superblock{});
  EXPECT_EQ(info(device_).error().code, EUCLEAN);
}

TEST_F(SuperblockTest, RefusesEveryOtherVersionAndSaysWhich) {
  const auto whole = load(0);
  for (const std::uint32_t version : {kFormatVersion + 1, kFormatVersion - 1}) {
    auto block = whole;
    block.version = version;
    reseal(block);
    store(0, block);
    EXPECT_EQ(info(device_).error().code, EPROTONOSUPPORT);
    EXPECT_NE(info(device_).error().message().find(version > kFormatVersion ? "newer" : "older"), std::string::npos);
    store(kSecond, block);
    EXPECT_EQ(info(device_).error().code, EPROTONOSUPPORT);
    EXPECT_EQ(Volume::open(device_).error().code, EPROTONOSUPPORT);
    store(0, whole);
    store(kSecond, whole);
  }
}

TEST_F(SuperblockTest, WithAnUnknownIncompatibleFeatureItIsLeftAlone) {
  change([](auto& block) {
    block.incompatible = 0x8;
    std::memcpy(block.made_by, "9.8.7", 5);
  });
  const auto before = load(0);
  for (const auto& error : {info(device_).error(), Volume::open(device_).error(), Volume::open(*read_only_device(device_)).error(),
                            Volume::repair(device_, [](std::string_view) {}).error()}) {
    EXPECT_EQ(error.code, EPROTONOSUPPORT);
    for (const char* word : {"0x8", "9.8.7", "newer"}) EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  }
  const auto after = load(0);
  EXPECT_EQ(std::memcmp(&before, &after, sizeof before), 0);
}

TEST_F(SuperblockTest, WithAnUnknownReadOnlyFeatureItIsOnlyRead) {
  change([](auto& block) { block.read_only = 0x4; });
  EXPECT_TRUE(ok(Volume::open(*read_only_device(device_))));
  for (const auto& error : {Volume::open(device_).error(), Volume::repair(device_, [](std::string_view) {}).error()}) {
    EXPECT_EQ(error.code, EPROTONOSUPPORT);
    for (const char* word : {"0x4", "newer", "-o ro"}) EXPECT_NE(error.message().find(word), std::string::npos) << error.message();
  }
}

// What such a feature keeps in the superblock stays there, whatever else is written to it.
TEST_F(SuperblockTest, WithAnUnknownCompatibleFeatureAllGoesOnAndItsFieldsStay) {
  const auto feature = [](auto& block) {
    block.compatible = 0x2;
    block.rest[0] = block.rest[sizeof block.rest - 1] = 77;
  };
  change(feature);
  auto volume = Volume::open(device_);
  ASSERT_TRUE(ok(volume));
  EXPECT_EQ((*volume)->info().features.compatible, 0x2u);
  ASSERT_TRUE(ok((*volume)->change({.label = "another"})));
  volume->reset();
  auto damaged = load(0);
  damaged.checksum ^= 1;
  store(0, damaged);
  ASSERT_TRUE(ok(Volume::repair(device_, [](std::string_view) {})));
  for (const std::uint64_t at : {std::uint64_t{0}, kSecond}) {
    const auto block = load(at);
    auto expected = block;
    feature(expected);
    EXPECT_EQ(std::memcmp(&block, &expected, sizeof block), 0);
    EXPECT_EQ(std::string_view(block.label, block.label_length), "another");
  }
}

TEST_F(SuperblockTest, IsMissingOnADeviceOfZerosOrOfNoise) {
  SparseDevice zeros{SparseImage(kSize)};
  EXPECT_EQ(info(zeros).error().code, EMEDIUMTYPE);
  SparseDevice tiny{SparseImage(kDeviceBlock)};
  EXPECT_EQ(info(tiny).error().code, EMEDIUMTYPE);
  SparseDevice empty{SparseImage(0)};
  EXPECT_EQ(info(empty).error().code, EMEDIUMTYPE);
  const std::string noise = test::pattern(MiB, 1);
  ASSERT_TRUE(ok(zeros.write(ByteOffset{0}, as_bytes(noise))));
  EXPECT_EQ(info(zeros).error().code, EMEDIUMTYPE);
}

TEST_F(SuperblockTest, RefusesADeviceThatHasShrunk) {
  SparseDevice smaller{SparseImage(kSize - MiB)};
  AlignedBuffer buffer(kDeviceBlock);
  ASSERT_TRUE(ok(device_.read(ByteOffset{0}, buffer.bytes())));
  ASSERT_TRUE(ok(smaller.write(ByteOffset{0}, buffer.bytes())));
  EXPECT_EQ(info(smaller).error().code, ENOSPC);
}

TEST_F(SuperblockTest, AcceptsADeviceThatHasGrown) {
  SparseDevice larger{SparseImage(kSize + 10 * MiB)};
  AlignedBuffer buffer(kDeviceBlock);
  for (std::uint64_t at : {std::uint64_t{0}, kSecond}) {
    ASSERT_TRUE(ok(device_.read(ByteOffset{at}, buffer.bytes())));
    ASSERT_TRUE(ok(larger.write(ByteOffset{at}, buffer.bytes())));
  }
  ASSERT_TRUE(ok(info(larger)));
  EXPECT_TRUE(notices_.empty());
}

// Whatever a stranger writes there with a right checksum: refused, or regions within the device.
TEST_F(SuperblockTest, RefusesRegionsThatCannotBe) {
  const auto whole = load(0);
  using Change = std::function<void(format::Superblock&)>;
  const Change changes[] = {
      [](auto& b) { b.metadata[0].start = 0; },
      [](auto& b) { b.metadata[0].start += 4096; },
      [](auto& b) { b.metadata[1].start = b.metadata[0].start; },
      [](auto& b) { b.metadata[0].length = 0; },
      [](auto& b) { b.metadata[1].length = std::uint64_t{1} << 62; },
      [](auto& b) { b.fixed.length = UINT64_MAX - MiB + 1; },
      [](auto& b) { b.fixed.start = UINT64_MAX - MiB + 1; },
      [](auto& b) { b.table.length += MiB; },
      [](auto& b) { b.table.start = b.fixed.start; },
      [](auto& b) { b.table = {b.fixed.start + b.fixed.length, MiB}; },
      [](auto& b) { b.device_size = 0; },
      [](auto& b) { b.device_size = UINT64_MAX; },
      [](auto& b) { b.label_length = 65; },
      [](auto& b) { b.label[0] = '\n'; },
      [](auto& b) { b.version = 0; },
      [](auto& b) { b.made_by[3] = '\n'; },
      [](auto& b) { b.made_by[0] = '\x1b'; },
      [](auto& b) { b.options_length = 257; },
      [](auto& b) { b.options_length = 8; },  // zeros
  };
  int n = 0;
  for (const Change& change : changes) {
    auto block = whole;
    change(block);
    reseal(block);
    EXPECT_EQ(decode_superblock(block).error().code, EUCLEAN) << "change " << n;
    ++n;
  }
}

TEST_F(SuperblockTest, LeavesNoTraceOfWhatWasOnTheDeviceBefore) {
  SparseDevice used{SparseImage(kSize + 12345 / 4096 * 4096)};
  const std::string noise = test::pattern(4 * MiB, 7);
  ASSERT_TRUE(ok(used.write(ByteOffset{0}, as_bytes(noise))));
  const std::uint64_t end = used.size().v;
  ASSERT_TRUE(ok(used.write(ByteOffset{end - 2 * MiB}, as_bytes(noise).first(2 * MiB))));
  ASSERT_TRUE(ok(Volume::format(used, {})));
  AlignedBuffer buffer(2 * MiB);
  ASSERT_TRUE(ok(used.read(ByteOffset{0}, buffer.bytes().first(MiB))));
  EXPECT_EQ(std::count(buffer.data() + kDeviceBlock, buffer.data() + MiB, std::byte{0}),
            static_cast<long>(MiB - kDeviceBlock));
  const std::uint64_t tail = end - (second_superblock_offset(end) + kDeviceBlock);
  ASSERT_TRUE(ok(used.read(ByteOffset{end - tail}, buffer.bytes().first(tail))));
  EXPECT_EQ(std::count(buffer.data(), buffer.data() + tail, std::byte{0}), static_cast<long>(tail));
}

TEST(MayBeVolume, GoesByTheMagicOfEitherCopyAlone) {
  const auto device = memory_device(ByteCount{kDeviceMin});
  EXPECT_FALSE(may_be_volume(*device));
  EXPECT_FALSE(may_be_volume(*memory_device(ByteCount{4096})));
  ASSERT_TRUE(Volume::format(*device, {}));
  AlignedBuffer first(kDeviceBlock), zeros(kDeviceBlock);
  ASSERT_TRUE(device->read(ByteOffset{0}, first.bytes()));
  first.data()[100] ^= std::byte{1};
  ASSERT_TRUE(device->write(ByteOffset{0}, first.bytes()));
  EXPECT_TRUE(may_be_volume(*device)) << "damaged, and an lsmfs";
  ASSERT_TRUE(device->write(ByteOffset{0}, zeros.bytes()));
  EXPECT_TRUE(may_be_volume(*device)) << "by the second";
  ASSERT_TRUE(device->write(ByteOffset{second_superblock_offset(kDeviceMin)}, zeros.bytes()));
  EXPECT_FALSE(may_be_volume(*device));
  const auto broken = hooked_device(*device, [](const DeviceEvent&, Bytes) { return Result<void>(make_error(EIO, "read")); });
  EXPECT_TRUE(may_be_volume(*broken)) << "nobody knows";
}

Result<SuperblockInfo> written_and_read(const Layout& layout, std::uint64_t size) {
  SuperblockInfo info;
  info.layout = layout;
  info.info.version = kFormatVersion;
  info.info.device_size = ByteCount{size};
  format::Superblock block;
  encode_superblock(info, block);
  return decode_superblock(block);
}

TEST(Layout, FillsDevicesOfEverySizeInOrderAndAligned) {
  std::uint64_t sizes[] = {kDeviceMin, kDeviceMin + 4096, 300 * MiB + 4096, 4 * GiB,
                           6 * GiB,    1024 * GiB,        100 * 1024 * GiB};
  for (std::uint64_t size : sizes) {
    auto layout = plan_layout(size);
    ASSERT_TRUE(ok(layout));
    EXPECT_TRUE(ok(written_and_read(*layout, size))) << size;
    EXPECT_EQ(layout->table.end(), layout->second_superblock);
    EXPECT_LE(layout->second_superblock + MiB, size);
    EXPECT_GT(layout->table.length, size / 2);
  }
  EXPECT_EQ(plan_layout(kDeviceMin - 1).error().code, ENOSPC);
}

// Whoever cannot list one more table stops for good.
TEST(Layout, TheListOfFilesHasRoomForAllTablesOfAFullDevice) {
  const std::uint64_t each = kSnapshotFileBytes + std::string_view("1234567.sst").size() + kSnapshotExtentBytes;
  for (std::uint64_t size = 4 * GiB; size <= 16 * 1024 * GiB; size += size / 3) {
    auto layout = plan_layout(size);
    ASSERT_TRUE(ok(layout));
    // Many a table is smaller than it is meant to be, which is 32 MiB at least on a large device.
    EXPECT_GE(MetadataLog::capacity(*layout) / 16 * 15 / each, layout->table.length / (24 * MiB)) << size;
  }
}

TEST(Layout, AMetadataAreaIsNoLongerThanItsDeviceNeeds) {
  EXPECT_EQ(plan_layout(kDeviceMin)->metadata[0].length, MiB);
  EXPECT_EQ(plan_layout(8 * GiB)->metadata[0].length, 16 * MiB);
  EXPECT_EQ(plan_layout(1024 * GiB)->metadata[0].length, 16 * MiB);
  EXPECT_EQ(plan_layout(16 * 1024 * GiB)->metadata[0].length, 256 * MiB);
  EXPECT_EQ(plan_layout(100 * 1024 * GiB)->metadata[0].length, 256 * MiB);
  for (const std::uint64_t size : {8 * GiB, 16 * 1024 * GiB}) {
    Layout layout = *plan_layout(size);
    for (const bool longer : {false, true}) {
      const std::uint64_t more = metadata_area_max(size) + (longer ? MiB : 0) - layout.metadata[0].length;
      layout.metadata[0].length += more;
      for (Extent* later : {&layout.metadata[1], &layout.fixed, &layout.table}) later->start += more;
      layout.table.length -= more;
      const auto read = written_and_read(layout, size);
      EXPECT_EQ(read ? 0 : read.error().code, longer ? EUCLEAN : 0) << size;
    }
  }
}

TEST(Layout, OfAVolumeThatShrinksSuitsWhatReadersTake) {
  for (std::uint64_t size = kDeviceMin; size < 64 * 1024 * GiB; size += size / 2) {
    const Layout made = *plan_layout(size);
    for (std::uint64_t smaller = kDeviceMin; smaller < size; smaller += smaller / 2) {
      const auto layout = layout_for(made, smaller);
      if (!layout) {
        EXPECT_EQ(layout.error().code, ENOSPC);
        EXPECT_LT(smaller, std::max(made.table.start + 65 * MiB, made.metadata[0].length * 256)) << size;
        continue;
      }
      EXPECT_TRUE(ok(written_and_read(*layout, smaller))) << size << " " << smaller;
    }
  }
}

TEST(Label, MustBeShortCleanUtf8) {
  EXPECT_TRUE(ok(check_label("")));
  EXPECT_TRUE(ok(check_label("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80")));
  EXPECT_TRUE(ok(check_label(std::string(kLabelMax, 'x'))));
  for (const char* bad : {"a\nb", "\x7f", "\xff", "\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xc2\x85", "\x80"}) {
    EXPECT_EQ(check_label(bad).error().code, EINVAL) << bad;
  }
  EXPECT_EQ(check_label(std::string(kLabelMax + 1, 'x')).error().code, EINVAL);
  EXPECT_EQ(check_label(std::string_view("\0", 1)).error().code, EINVAL);
}

}  // namespace
}  // namespace lsmfs::superblock_test
