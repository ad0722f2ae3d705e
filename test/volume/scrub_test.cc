// Volume::scrub(): each structure is damaged on the device below an open volume, and must be found; whatever changes meanwhile is
// no damage.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "volume/scrub.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::scrub_test {
namespace {

using test::ok;
using test::pattern;
using test::SparseDevice;
using test::SparseImage;
using test::write_file;

constexpr std::uint64_t kSize = 128 * MiB;
const Stop kNever = [] { return false; };

class Scrub : public ::testing::Test {
 protected:
  struct Found {
    std::uint64_t read = 0;
    std::vector<std::string> damage;
  };

  Scrub() : layout_(*plan_layout(kSize)) {
    EXPECT_TRUE(ok(Volume::format(memory_, {})));
    device_ = hooked_device(memory_, [this](const DeviceEvent& event, Bytes) -> Result<void> {
      const bool there = event.offset.v <= unreadable_ && unreadable_ < event.offset.v + event.length.v;
      if (event.kind == DeviceEvent::Kind::read && there) return make_error(EIO, "a bad block");
      return {};
    });
    open();
    EXPECT_TRUE(ok(write_file(*volume_, "small", FileKind::small, pattern(10'000, 1))));
    EXPECT_TRUE(ok(write_file(*volume_, "table", FileKind::table, pattern(100'000, 2))));
    log_ = *volume_->create("log", FileKind::log);
    append(300'000);
    EXPECT_TRUE(ok(log_->sync()));
    append(2'000'000);
    EXPECT_TRUE(ok(log_->sync()));
  }

  void open() {
    auto volume = Volume::open(*device_);
    ASSERT_TRUE(ok(volume));
    volume_ = std::move(*volume);
  }
  void append(std::size_t bytes) { ASSERT_TRUE(ok(log_->append(as_bytes(pattern(bytes, 3))))); }

  Found scrub(ScrubRange range = {}) {
    Found found;
    for (int steps = 0; !range.done(); ++steps) {
      const auto step = volume_->scrub(range, kNever);
      if (!step || steps > 1000) {
        ADD_FAILURE() << (step ? "it has no end" : step.error().message());
        break;
      }
      found.read += step->read.v;
      found.damage.insert(found.damage.end(), step->damage.begin(), step->damage.end());
      EXPECT_EQ(step->left.v == 0, range.done());
    }
    return found;
  }
  // Of the only line; "" when there is not one.
  std::string line() {
    const auto found = scrub();
    EXPECT_EQ(found.damage.size(), 1u) << testing::PrintToString(found.damage);
    return found.damage.size() == 1 ? found.damage[0] : "";
  }

  // The other way round the second time.
  void flip(std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    const ByteOffset from{round_down(at, kDeviceBlock)};
    ASSERT_TRUE(ok(memory_.read(from, block.bytes())));
    block.data()[at % kDeviceBlock] ^= std::byte{1};
    ASSERT_TRUE(ok(memory_.write(from, block.bytes())));
  }
  // Where frames of log files begin, in the order in which they lie there.
  std::vector<std::uint64_t> frames() {
    std::vector<std::uint64_t> found;
    AlignedBuffer block(kDeviceBlock);
    for (std::uint64_t at = layout_.fixed.start; at < layout_.fixed.end(); at += kDeviceBlock) {
      EXPECT_TRUE(ok(memory_.read(ByteOffset{at}, block.bytes())));
      std::uint32_t magic = 0;
      std::memcpy(&magic, block.data(), sizeof magic);
      if (magic == format::kFrameMagic) found.push_back(at);
    }
    return found;
  }

  const Layout layout_;
  SparseDevice memory_{SparseImage(kSize)};
  std::atomic<std::uint64_t> unreadable_{UINT64_MAX};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Volume> volume_;
  std::unique_ptr<FileWriter> log_;
};

TEST_F(Scrub, ASoundVolumeIsReadToItsEnd) {
  const Found found = scrub();
  EXPECT_EQ(found.damage, std::vector<std::string>{});
  EXPECT_GT(found.read, 2'300'000u + 10'000u + 2 * kDeviceBlock);
  EXPECT_LT(found.read, 2'300'000u + 10'000u + MiB) << "tables are left to others";
}

TEST_F(Scrub, EachCopyOfTheSuperblock) {
  for (const auto& [which, at] : {std::pair{"first", std::uint64_t{0}}, std::pair{"second", layout_.second_superblock}}) {
    flip(at + 1000);
    EXPECT_NE(line().find(std::string("the ") + which + " superblock is damaged"), std::string::npos);
    flip(at + 1000);
  }
  ASSERT_TRUE(ok(volume_->change({.label = "another"})));
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(Scrub, EachCopyOfEachRecordOfTheMetadataLog) {
  const std::uint64_t start = layout_.metadata[0].start;
  for (std::uint64_t record = 0; record < 4; ++record) {
    const std::uint64_t first = start + 2 * record * kDeviceBlock, second = first + kDeviceBlock;
    for (const std::uint64_t at : {first, second}) {
      flip(at + 35);
      EXPECT_EQ(line(), "one of the two copies of 1 record of the metadata log is damaged, of record " + std::to_string(record) +
                            " first");
      flip(at + 35);
    }
    flip(first + 35);
    flip(second + 35);
    EXPECT_EQ(line(), "record " + std::to_string(record) + " of the metadata log is damaged, in both copies");
    flip(first + 35);
    flip(second + 35);
  }
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(Scrub, AMetadataLogThatHasGoneOnInItsOtherArea) {
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(ok(write_file(*volume_, "small", FileKind::small, "x")));
  EXPECT_TRUE(scrub().damage.empty());
  // What does not count any more is not looked at, in one of the two.
  std::uint64_t found = 0;
  for (const Extent& area : layout_.metadata) {
    flip(area.start + 50);
    found += scrub().damage.size();
    flip(area.start + 50);
  }
  EXPECT_EQ(found, 1u);
}

// Nobody writes it again before the next change, which a read-only volume will not see.
TEST_F(Scrub, ARecordThatACrashHasTornIsNoDamage) {
  ASSERT_TRUE(ok(log_->close()));
  log_.reset();
  ASSERT_TRUE(ok(volume_->commit()));
  volume_.reset();
  AlignedBuffer block(kDeviceBlock);
  std::uint64_t last = layout_.metadata[0].start;
  const auto is_record = [&](std::uint64_t at) {
    std::uint32_t magic = 0;
    EXPECT_TRUE(ok(memory_.read(ByteOffset{at}, block.bytes())));
    std::memcpy(&magic, block.data(), sizeof magic);
    return magic == format::kRecordMagic;
  };
  while (is_record(last + 2 * kDeviceBlock)) last += 2 * kDeviceBlock;
  flip(last + kDeviceBlock + 50);
  device_ = read_only_device(memory_);
  open();
  EXPECT_TRUE(scrub().damage.empty());
  flip(last - kDeviceBlock + 50);
  EXPECT_EQ(scrub().damage.size(), 1u);
}

TEST_F(Scrub, FramesThatAreDurable) {
  const auto all = frames();
  ASSERT_GE(all.size(), 3u);
  for (const std::uint64_t frame : all) {
    for (const std::uint64_t at : {frame + 10, frame + 30, frame + 100, frame + 5000}) {
      flip(at);
      EXPECT_NE(line().find("log file log is damaged: frame "), std::string::npos);
      flip(at);
    }
  }
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(Scrub, FramesThatAreNotYetDurableAreLeftAlone) {
  const auto before = frames();
  append(3'000'000);
  EXPECT_TRUE(ok(volume_->open_reader("log")));  // writes what is buffered
  const auto after = frames();
  ASSERT_GT(after.size(), before.size());
  flip(after.back() + 100);
  EXPECT_TRUE(scrub().damage.empty());
  ASSERT_TRUE(ok(log_->sync()));
  EXPECT_EQ(scrub().damage.size(), 1u);
}

TEST_F(Scrub, ALogThatWasShortenedAndClosedAndOpenedAgain) {
  ASSERT_TRUE(ok(log_->truncate(ByteCount{1'000'000})));
  EXPECT_TRUE(scrub().damage.empty());
  append(500'000);
  ASSERT_TRUE(ok(log_->sync()));
  EXPECT_TRUE(scrub().damage.empty());
  ASSERT_TRUE(ok(log_->close()));
  log_.reset();
  EXPECT_TRUE(scrub().damage.empty());
  volume_.reset();
  open();
  EXPECT_TRUE(scrub().damage.empty());
  log_ = *volume_->reopen("log");
  append(500'000);
  ASSERT_TRUE(ok(log_->sync()));
  EXPECT_TRUE(scrub().damage.empty());
  flip(frames().back() + 100);
  EXPECT_EQ(scrub().damage.size(), 1u);
}

// Nothing has looked at the log since the volume was opened.
TEST_F(Scrub, ALogThatNobodyHasRead) {
  log_.reset();
  volume_.reset();
  open();
  flip(frames().front() + 100);
  EXPECT_NE(line().find("log file log is damaged: frame 1 "), std::string::npos);
}

TEST_F(Scrub, WhatCannotBeReadIsDamageAndStopsNothing) {
  const auto in_log = frames().front();
  std::uint64_t in_small = 0;
  AlignedBuffer block(kDeviceBlock);
  const std::string contents = pattern(10'000, 1);
  for (std::uint64_t at = layout_.fixed.start; in_small == 0; at += kDeviceBlock) {
    ASSERT_LT(at, kSize);
    ASSERT_TRUE(ok(memory_.read(ByteOffset{at}, block.bytes())));
    if (as_text(block.bytes()) == contents.substr(0, kDeviceBlock)) in_small = at;
  }
  const std::uint64_t in_metadata = layout_.metadata[0].start;
  for (const std::uint64_t at :
       {std::uint64_t{0}, layout_.second_superblock, in_metadata, in_metadata + kDeviceBlock, in_log, in_small}) {
    unreadable_ = at;
    EXPECT_NE(line(), "") << at;
  }
  unreadable_ = UINT64_MAX;
  EXPECT_FALSE(volume_->failure());
  append(1000);
  EXPECT_TRUE(ok(log_->sync()));
  EXPECT_TRUE(scrub().damage.empty());
}

TEST_F(Scrub, ALogThatIsRemovedInBetweenIsNoDamageAndOneThatCameLaterIsLeftAlone) {
  ASSERT_TRUE(ok(write_file(*volume_, "second log", FileKind::log, pattern(500'000, 7))));
  ScrubRange range;
  ASSERT_TRUE(ok(volume_->scrub(range, kNever)));
  log_.reset();
  ASSERT_TRUE(ok(volume_->remove("log")));
  ASSERT_TRUE(ok(volume_->commit()));
  ASSERT_TRUE(ok(write_file(*volume_, "later", FileKind::log, pattern(5'000'000, 8))));
  const Found found = scrub(range);
  EXPECT_TRUE(found.damage.empty());
  EXPECT_GT(found.read, 500'000u);
  EXPECT_LT(found.read, 1'000'000u);
}

TEST_F(Scrub, ItStopsWhenItIsTold) {
  for (ScrubRange range : {ScrubRange{}, ScrubRange{1, 100}}) {
    const ScrubRange before = range;
    EXPECT_EQ(volume_->scrub(range, [] { return true; }).error().code, EINTR);
    EXPECT_EQ(range.next, before.next) << "it can be gone on with";
  }
}

TEST_F(Scrub, APositionMayBeAnything) {
  for (const std::uint64_t next : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, UINT64_MAX - 1, UINT64_MAX}) {
    for (const std::uint64_t end : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{3}, UINT64_MAX}) {
      EXPECT_TRUE(scrub({next, end}).damage.empty());
    }
  }
}

TEST_F(Scrub, GoesOnBesideChangesOfAllKinds) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int n = 0; n < 2; ++n) {
    threads.emplace_back([&, n] {
      const std::string name = "log" + std::to_string(n);
      while (!stop) {
        auto writer = volume_->create(name, FileKind::log);
        ASSERT_TRUE(ok(writer));
        for (int k = 0; k < 20; ++k) {
          ASSERT_TRUE(ok((*writer)->append(as_bytes(pattern(k % 5 == 0 ? 1'500'000 : 5000, 9)))));
          if (k % 3 == 0) {
            ASSERT_TRUE(ok((*writer)->sync()));
          }
          if (k == 13) {
            ASSERT_TRUE(ok((*writer)->truncate(ByteCount{1'000'000})));
          }
        }
        ASSERT_TRUE(ok((*writer)->close()));
        ASSERT_TRUE(ok(volume_->remove(name)));
        ASSERT_TRUE(ok(volume_->commit()));
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; !stop; ++i) {
      ASSERT_TRUE(ok(write_file(*volume_, "new", FileKind::small, pattern(5000, 4))));
      ASSERT_TRUE(ok(volume_->rename("new", "small")));
      ASSERT_TRUE(ok(volume_->note_synced()));
      if (i % 10 == 0) {
        ASSERT_TRUE(ok(volume_->change({.label = "label " + std::to_string(i)})));
      }
    }
  });
  for (int i = 0; i < 30; ++i) EXPECT_EQ(scrub().damage, std::vector<std::string>{});
  stop = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace lsmfs::scrub_test
