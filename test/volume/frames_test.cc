#include "volume/frames.h"

#include <gtest/gtest.h>

#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::frames_test {
namespace {

using format::FrameHeader;
using test::contents_of;
using test::ok;
using test::pattern;

// Extents in memory with frames put there by hand.
class Frames : public ::testing::Test {
 protected:
  Frames() {
    file_.id = 9;
    file_.kind = FileKind::log;
    file_.name = "wal";
    file_.extents = {{0, memory_.size()}};
  }

  struct Frame {
    std::uint64_t sequence = 1, durable = 0, offset = 0, session = 100, previous = 0;
    std::string payload = "payload";
    std::uint64_t id = 9;
  };
  void put(std::uint64_t position, const Frame& f, std::uint64_t seed = kSeed) {
    FrameHeader h{};
    h.magic = format::kFrameMagic;
    h.version = kFormatVersion;
    h.payload_length = static_cast<std::uint32_t>(f.payload.size());
    h.file_id = f.id;
    h.sequence = f.sequence;
    h.durable_sequence = f.durable;
    h.offset = f.offset;
    h.session = f.session;
    h.previous_session = f.previous;
    std::memcpy(memory_.data() + position, &h, sizeof h);
    std::memcpy(memory_.data() + position + sizeof h, f.payload.data(), f.payload.size());
    seal_frame(memory_.bytes().subspan(position), seed);
  }
  Result<LogScan> scan() {
    return scan_log(file_, kSeed, [&](std::uint64_t at, MutableBytes to) -> Result<void> {
      EXPECT_LE(at + to.size(), memory_.size());
      std::memcpy(to.data(), memory_.data() + at, to.size());
      return {};
    });
  }
  std::uint64_t size() {
    auto s = scan();
    EXPECT_TRUE(ok(s));
    return s ? s->size : 0;
  }

  static constexpr std::uint64_t kSeed = 77;
  static constexpr std::uint64_t kB = kDeviceBlock;
  AlignedBuffer memory_{32 * kDeviceBlock};
  FileRecord file_;
};

TEST_F(Frames, AreReadInOrder) {
  put(0, {});
  put(kB, {.sequence = 2, .offset = 7, .previous = 100, .payload = pattern(5000, 1)});
  put(3 * kB, {.sequence = 3, .offset = 5007, .previous = 100});
  auto s = scan();
  ASSERT_TRUE(ok(s));
  EXPECT_EQ(s->size, 5014u);
  EXPECT_EQ(s->sequence, 3u);
  EXPECT_EQ(s->session, 100u);
  EXPECT_EQ(s->position, 4 * kB);
  EXPECT_EQ(s->frames.size(), 3u);
}

TEST_F(Frames, EndSilentlyAtATornOneThatWasNotSynced) {
  put(0, {});
  put(kB, {.sequence = 2, .offset = 7, .previous = 100});
  put(2 * kB, {.sequence = 3, .durable = 1, .offset = 14, .previous = 100});
  memory_.data()[kB + sizeof(FrameHeader)] ^= std::byte{1};
  EXPECT_EQ(size(), 7u);
}

TEST_F(Frames, ReportADamagedOneThatALaterOneKnowsToBeSynced) {
  put(0, {});
  put(kB, {.sequence = 2, .offset = 7, .previous = 100});
  put(9 * kB, {.sequence = 3, .durable = 2, .offset = 14, .previous = 100});
  memory_.data()[kB + sizeof(FrameHeader)] ^= std::byte{1};
  EXPECT_EQ(scan().error().code, EUCLEAN);
  EXPECT_NE(scan().error().message().find("wal"), std::string::npos);
}

TEST_F(Frames, ReportADamagedOneThatTheMetadataKnowsToBeSynced) {
  put(0, {});
  file_.synced_sequence = 1;
  EXPECT_EQ(size(), 7u);
  file_.synced_sequence = 2;
  EXPECT_EQ(scan().error().code, EUCLEAN);
}

TEST_F(Frames, OfAnotherFileOrVolumeDoNotCount) {
  put(0, {.id = 8});
  EXPECT_EQ(size(), 0u);
  put(0, {}, kSeed + 1);
  EXPECT_EQ(size(), 0u);
  put(0, {});
  put(kB, {.sequence = 2, .durable = 9, .offset = 7, .previous = 100}, kSeed + 1);
  EXPECT_EQ(size(), 7u);
}

TEST_F(Frames, OfNoSessionDoNotCount) {
  put(0, {.session = 0});
  EXPECT_EQ(size(), 0u);
}

TEST_F(Frames, OfAnEarlierSessionDoNotFollowThoseOfALaterOne) {
  put(0, {});
  put(kB, {.sequence = 2, .offset = 7, .session = 200, .previous = 100});
  put(2 * kB, {.sequence = 3, .offset = 14, .session = 100, .previous = 100});  // what the first session lost
  EXPECT_EQ(size(), 14u);
}

TEST_F(Frames, WithASmallerOffsetShortenTheFile) {
  put(0, {.payload = "0123456789"});
  put(kB, {.sequence = 2, .offset = 4, .previous = 100, .payload = "xy"});
  auto s = scan();
  ASSERT_TRUE(ok(s));
  EXPECT_EQ(s->size, 6u);
  ASSERT_EQ(s->frames.size(), 2u);
  EXPECT_EQ(s->frames[0].length, 4u);
  put(2 * kB, {.sequence = 3, .offset = 100, .previous = 100});  // leaves a hole: cannot be
  EXPECT_EQ(size(), 6u);
}

TEST_F(Frames, AreCutWhereTheMetadataSays) {
  put(0, {.payload = "0123456789"});
  put(kB, {.sequence = 2, .offset = 10, .previous = 100, .payload = "abc"});
  file_.cut_sequence = 2;
  file_.cut_size = 5;
  EXPECT_EQ(size(), 5u);
  file_.cut_size = 0;
  EXPECT_EQ(size(), 0u);
  file_.cut_size = 11;
  EXPECT_EQ(size(), 11u);
  file_.cut_sequence = 9;  // of frames that were lost
  EXPECT_EQ(size(), 11u);
  file_.cut_sequence = 2;
  put(2 * kB, {.sequence = 3, .offset = 11, .previous = 100, .payload = "later"});
  EXPECT_EQ(size(), 16u);
}

TEST_F(Frames, WithLengthsThatCannotBeEndTheLog) {
  put(0, {});
  for (std::uint32_t length : {0u, 1u << 20, 0xffffffffu, static_cast<unsigned>(format::kFramePayloadMax)}) {
    Frame f{.sequence = 2, .durable = 5, .offset = 7, .previous = 100};
    put(31 * kB, f);
    std::memcpy(memory_.data() + 31 * kB + offsetof(FrameHeader, payload_length), &length, sizeof length);
    std::memcpy(memory_.data() + kB, memory_.data() + 31 * kB, kB);
    EXPECT_EQ(size(), 7u);
  }
}

// The same through a volume, where an earlier log had the same extents.
TEST(LogsOnAVolume, IgnoreTheFramesOfAnEarlierLogInTheSamePlace) {
  test::SparseDevice device{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(device, {})));
  for (int round = 0; round < 5; ++round) {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    if ((*volume)->exists("log")) {
      ASSERT_TRUE(ok((*volume)->remove("log")));
    }
    ASSERT_TRUE(ok((*volume)->commit()));
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    // Each round syncs fewer frames of the same form than the one before; what lies behind is stale.
    std::string expected;
    for (int i = 0; i < 10 - 2 * round; ++i) {
      const std::string more = pattern(3000, static_cast<std::uint64_t>(i));
      ASSERT_TRUE(ok((*log)->append(as_bytes(more))));
      ASSERT_TRUE(ok((*log)->sync()));
      expected += more;
    }
    auto again = Volume::open(device);  // as after a kill
    ASSERT_TRUE(ok(again));
    EXPECT_TRUE(contents_of(**again, "log") == expected);
  }
}

TEST(LogsOnAVolume, IgnoreTheLostEndOfAnEarlierRunThatNeverBecameDurable) {
  test::SparseDevice device{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(device, {})));
  const std::string block = pattern(3000, 1);
  test::SparseImage before = device.image();
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto log = (*volume)->create("log", FileKind::log);  // the same id in both runs
    ASSERT_TRUE(ok(log));
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(ok((*log)->append(as_bytes(block))));
      ASSERT_TRUE(ok((*volume)->open_reader("log")));  // makes a frame without a sync
    }
  }
  // The metadata of that run is lost, its frames are not.
  AlignedBuffer area(2 * MiB);
  before.read(MiB, area.bytes());
  ASSERT_TRUE(ok(device.write(ByteOffset{MiB}, area.bytes())));
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE((*volume)->list().empty());
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    ASSERT_TRUE(ok((*log)->append(as_bytes(block))));
    ASSERT_TRUE(ok((*log)->sync()));
  }
  auto again = Volume::open(device);
  ASSERT_TRUE(ok(again));
  EXPECT_TRUE(contents_of(**again, "log") == block);
}

TEST(LogsOnAVolume, DoNotApplyACutOfLostFramesToThoseWrittenLater) {
  test::SparseDevice device{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(device, {})));
  std::string expected = pattern(3000, 1);
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    ASSERT_TRUE(ok((*log)->append(as_bytes(expected))));
    ASSERT_TRUE(ok((*log)->sync()));
    for (int i = 0; i < 3; ++i) {  // frames 2 to 4, not synced
      ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(2000, 2)))));
      ASSERT_TRUE(ok((*volume)->open_reader("log")));
    }
    ASSERT_TRUE(ok((*log)->truncate(ByteCount{4000})));
    ASSERT_TRUE(ok((*volume)->commit()));
  }
  const AlignedBuffer zeros(3 * kDeviceBlock);  // the crash took them
  ASSERT_TRUE(ok(device.write(ByteOffset{plan_layout(128 * MiB)->fixed.start + kDeviceBlock}, zeros.bytes())));
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(contents_of(**volume, "log") == expected);
    auto log = (*volume)->reopen("log");
    ASSERT_TRUE(ok(log));
    for (int i = 0; i < 6; ++i) {
      const std::string more = pattern(2000, static_cast<std::uint64_t>(10 + i));
      ASSERT_TRUE(ok((*log)->append(as_bytes(more))));
      ASSERT_TRUE(ok((*log)->sync()));
      expected += more;
    }
  }
  auto again = Volume::open(device);
  ASSERT_TRUE(ok(again));
  EXPECT_TRUE(contents_of(**again, "log") == expected);
}

TEST(LogsOnAVolume, ReportDamageOfASyncedFrameWhereverItIs) {
  test::SparseDevice device{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(device, {})));
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(3000, 5)))));
      ASSERT_TRUE(ok((*log)->sync()));
    }
    ASSERT_TRUE(ok((*log)->close()));
    ASSERT_TRUE(ok((*volume)->commit()));  // the metadata now knows of all six
  }
  const std::uint64_t start = plan_layout(128 * MiB)->fixed.start;
  for (std::uint64_t frame = 0; frame < 6; ++frame) {
    test::SparseDevice damaged{device.image()};
    AlignedBuffer block(kDeviceBlock);
    ASSERT_TRUE(ok(damaged.read(ByteOffset{start + frame * kDeviceBlock}, block.bytes())));
    block.data()[100] ^= std::byte{4};
    ASSERT_TRUE(ok(damaged.write(ByteOffset{start + frame * kDeviceBlock}, block.bytes())));
    auto volume = Volume::open(damaged);
    ASSERT_TRUE(ok(volume));
    EXPECT_EQ((*volume)->open_reader("log").error().code, EUCLEAN) << frame;
    EXPECT_EQ((*volume)->size_of("log").error().code, EUCLEAN);
    EXPECT_EQ((*volume)->reopen("log").error().code, EUCLEAN);
    EXPECT_TRUE(ok((*volume)->remove("log")));
  }
}

}  // namespace
}  // namespace lsmfs::frames_test
