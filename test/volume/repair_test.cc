// What was durable and is damaged: found, also at the very end of a log, and mended by Volume::repair() as far as it goes.
#include <gtest/gtest.h>

#include "volume/format.h"
#include "volume/sparse_device.h"
#include "volume/superblock.h"
#include "volume/support.h"

namespace lsmfs::repair_test {
namespace {

using test::contents_of;
using test::ok;
using test::pattern;
using test::SparseDevice;
using test::SparseImage;

class VolumeRepair : public testing::Test {
 protected:
  VolumeRepair() { EXPECT_TRUE(ok(Volume::format(device_, {}))); }

  // A log with three frames, each synced, as a crash leaves it.
  void write_log(bool noted) {
    const auto volume = Volume::open(device_);
    ASSERT_TRUE(ok(volume));
    const auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    for (int frame = 0; frame < 3; ++frame) {
      ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(1000, frame)))));
      ASSERT_TRUE(ok((*log)->sync()));
    }
    if (noted) {
      ASSERT_TRUE(ok((*volume)->note_synced()));
    }
    crashed_ = device_.image();  // before the log is closed, which would note it
  }

  static std::vector<std::uint64_t> blocks_with(const SparseImage& image, std::uint32_t magic) {
    std::vector<std::uint64_t> found;
    AlignedBuffer block(kDeviceBlock);
    // Between the superblocks, which begin with the same letters as frames.
    for (std::uint64_t at = MiB; at < second_superblock_offset(image.size()); at += kDeviceBlock) {
      image.read(at, block.bytes());
      if (std::memcmp(block.data(), &magic, sizeof magic) == 0) found.push_back(at);
    }
    return found;
  }
  static void flip(SparseDevice& device, std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    ASSERT_TRUE(ok(device.read(ByteOffset{at}, block.bytes())));
    block.data()[12] ^= std::byte{4};  // of any header
    ASSERT_TRUE(ok(device.write(ByteOffset{at}, block.bytes())));
  }
  // What repair() says, line by line.
  static std::vector<std::string> repair(Device& device) {
    std::vector<std::string> lines;
    const auto done = Volume::repair(device, [&](std::string_view line) { lines.emplace_back(line); });
    EXPECT_TRUE(ok(done));
    return lines;
  }

  SparseDevice device_{SparseImage(128 * MiB)};
  SparseImage crashed_{128 * MiB};
};

TEST_F(VolumeRepair, AFlippedBitInTheLastSyncedFrameIsFoundOnceItIsNotedElsewhere) {
  for (const bool noted : {false, true}) {
    write_log(noted);
    SparseDevice damaged{crashed_};
    const auto frames = blocks_with(crashed_, format::kFrameMagic);
    ASSERT_EQ(frames.size(), 3u);
    flip(damaged, frames.back());
    const auto volume = Volume::open(damaged);
    ASSERT_TRUE(ok(volume));
    const auto reader = (*volume)->open_reader("log");
    if (noted) {
      ASSERT_FALSE(reader);
      EXPECT_EQ(reader.error().code, EUCLEAN);
    } else {
      ASSERT_TRUE(ok(reader));
      EXPECT_EQ((*reader)->size().v, 2000u) << "which nothing tells from a frame that a crash has torn";
    }
    ASSERT_TRUE(ok(Volume::format(device_, {})));
  }
}

TEST_F(VolumeRepair, ALogEndsBeforeItsDamageAndGoesOnFromThere) {
  write_log(true);
  const auto frames = blocks_with(crashed_, format::kFrameMagic);
  ASSERT_EQ(frames.size(), 3u);
  for (std::size_t hit = 0; hit < 3; ++hit) {
    SparseDevice damaged{crashed_};
    flip(damaged, frames[hit]);
    const auto lines = repair(damaged);
    ASSERT_EQ(lines.size(), 1u) << testing::PrintToString(lines);
    EXPECT_NE(lines[0].find("log file log is damaged: frame " + std::to_string(hit + 1)), std::string::npos) << lines[0];
    EXPECT_TRUE(repair(damaged).empty()) << "nothing is left to be mended";
    std::string expected;
    for (std::size_t frame = 0; frame < hit; ++frame) expected += pattern(1000, frame);
    const auto volume = Volume::open(damaged);
    ASSERT_TRUE(ok(volume));
    EXPECT_EQ((*volume)->list(), std::vector<std::string>{"log"});
    EXPECT_TRUE(contents_of(**volume, "log") == expected);
    const auto log = (*volume)->reopen("log");
    ASSERT_TRUE(ok(log));
    ASSERT_TRUE(ok((*log)->append(as_bytes("more"))));
    ASSERT_TRUE(ok((*log)->sync()));
    EXPECT_TRUE(contents_of(**volume, "log") == expected + "more");
  }
}

TEST_F(VolumeRepair, ADamagedSuperblockIsWrittenAgain) {
  for (const std::uint64_t at : {std::uint64_t{0}, second_superblock_offset(128 * MiB)}) {
    flip(device_, at);
    EXPECT_EQ(repair(device_).size(), 1u);
    EXPECT_TRUE(repair(device_).empty());
    std::string notices;
    EXPECT_TRUE(ok(read_volume_info(device_, {.notice = [&](std::string_view line) { notices += line; }})));
    EXPECT_EQ(notices, "");
  }
  flip(device_, 0);
  flip(device_, second_superblock_offset(128 * MiB));
  EXPECT_EQ(Volume::repair(device_, [](std::string_view) {}).error().code, EUCLEAN);
}

TEST_F(VolumeRepair, AnyOneBlockOfTheMetadataLogMayBeLost) {
  write_log(false);
  const auto records = blocks_with(crashed_, format::kRecordMagic);
  ASSERT_EQ(records.size(), 4u);
  for (const std::uint64_t at : records) {
    SparseDevice damaged{crashed_};
    flip(damaged, at);
    repair(damaged);
    EXPECT_TRUE(repair(damaged).empty());
    const auto volume = Volume::open(damaged);
    ASSERT_TRUE(ok(volume));
    EXPECT_TRUE(contents_of(**volume, "log") == pattern(1000, 0) + pattern(1000, 1) + pattern(1000, 2)) << "block at " << at;
  }
}

TEST_F(VolumeRepair, OfTheMetadataLogWhatComesBeforeTheDamageIsKept) {
  write_log(true);
  const auto records = blocks_with(crashed_, format::kRecordMagic);
  SparseDevice damaged{crashed_};
  // Both copies of the first record after the snapshot.
  flip(damaged, records[2]);
  flip(damaged, records[3]);
  EXPECT_EQ(Volume::open(damaged).error().code, EUCLEAN);
  EXPECT_EQ(repair(damaged).size(), 1u);
  EXPECT_TRUE(repair(damaged).empty());
  EXPECT_TRUE(ok(Volume::open(damaged)));
}

TEST_F(VolumeRepair, NothingIsWrittenWhenNothingIsDamaged) {
  write_log(true);
  SparseDevice sound{crashed_};
  sound.record();
  EXPECT_TRUE(repair(sound).empty());
  for (const auto& event : sound.trace()) EXPECT_TRUE(event.flush);
}

}  // namespace
}  // namespace lsmfs::repair_test
