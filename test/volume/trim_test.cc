// Trimming discards what is free, all of it and nothing else, while the volume works on.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "base/watched.h"
#include "gate.h"
#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::trim_test {
namespace {

using test::contents_of;
using test::Gate;
using test::ok;
using test::pattern;
using test::PowerCut;
using test::SparseDevice;
using test::SparseImage;
using test::Survivors;
using test::WatchedThread;
using test::write_file;

constexpr std::uint64_t kSize = 128 * MiB;
constexpr std::uint64_t kFile = 2 * MiB, kGranule = kTableGranule;
const Stop kNever = [] { return false; };

// Calls `on_discard` before each discard, which fails with the error that it gives.
class Trim : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ok(Volume::format(*memory_, {})));
    open();
  }
  void open() {
    volume_.reset();
    auto volume = Volume::open(*device_);
    ASSERT_TRUE(ok(volume));
    volume_ = std::move(*volume);
  }
  Result<ByteCount> trim(const TrimRange& range = {}, const Stop& stop = kNever) {
    discarded_.clear();
    return volume_->trim(range, stop);
  }
  std::uint64_t free() const { return volume_->usage().table_free.v; }

  // Files t0, t1, ... of kFile each, and their contents.
  std::string contents(int i) { return pattern(kFile, static_cast<std::uint64_t>(i) + 1); }
  void fill(int files) {
    for (int i = 0; i < files; ++i) {
      auto writer = volume_->create("t" + std::to_string(i), FileKind::table);
      ASSERT_TRUE(ok(writer));
      ASSERT_TRUE(ok((*writer)->reserve(ByteCount{kFile})));
      ASSERT_TRUE(ok((*writer)->append(as_bytes(contents(i)))));
      ASSERT_TRUE(ok((*writer)->sync()));
      ASSERT_TRUE(ok((*writer)->close()));
    }
  }

  std::unique_ptr<Device> memory_ = memory_device(ByteCount{kSize});
  std::vector<DeviceEvent> discarded_;
  std::function<Result<void>()> on_discard_ = [] { return Result<void>(); };
  std::unique_ptr<Device> device_ = hooked_device(*memory_, [this](const DeviceEvent& event, Bytes) -> Result<void> {
    if (event.kind != DeviceEvent::Kind::discard) return {};
    discarded_.push_back(event);
    return on_discard_();
  });
  std::unique_ptr<Volume> volume_;
};

TEST_F(Trim, DiscardsAllThatIsFreeAndNothingElse) {
  fill(12);
  for (int i = 0; i < 12; i += 2) ASSERT_TRUE(ok(volume_->remove("t" + std::to_string(i))));
  auto trimmed = trim();
  ASSERT_TRUE(ok(trimmed));
  EXPECT_EQ(trimmed->v, free());
  EXPECT_EQ(volume_->usage().table_total.v - free(), 6 * kFile);  // also of the files that were just removed
  std::uint64_t sum = 0;
  for (const auto& event : discarded_) sum += event.length.v;
  EXPECT_EQ(sum, trimmed->v);
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i < 12; i += 2) ASSERT_TRUE(contents_of(*volume_, "t" + std::to_string(i)) == contents(i)) << i;
    open();
  }
  fill(12);  // the space is as good as before
  for (int i = 0; i < 12; ++i) ASSERT_TRUE(contents_of(*volume_, "t" + std::to_string(i)) == contents(i)) << i;
}

TEST_F(Trim, GoesInBoundedPieces) {
  ASSERT_TRUE(ok(trim()));
  EXPECT_GT(discarded_.size(), 2u);
  for (const auto& event : discarded_) EXPECT_LE(event.length.v, 32 * MiB);
}

TEST_F(Trim, LeavesARemovedFileToThoseWhoHaveItOpen) {
  fill(2);
  auto reader = volume_->open_reader("t0");
  ASSERT_TRUE(ok(reader));
  ASSERT_TRUE(ok(volume_->remove("t0")));
  ASSERT_TRUE(ok(trim()));
  EXPECT_TRUE(test::read_all(**reader) == contents(0));
  reader->reset();
  const auto more = trim();
  ASSERT_TRUE(ok(more));
  EXPECT_EQ(more->v, volume_->usage().table_total.v - kFile);
}

TEST_F(Trim, KeepsToTheRange) {
  fill(1);
  ASSERT_TRUE(ok(trim()));
  std::vector<DeviceEvent> all = discarded_;
  ASSERT_GT(all.size(), 3u);
  const std::uint64_t start = all[1].offset.v + 3 * MiB + 5, end = all[2].offset.v + 2 * MiB + 7;
  const auto trimmed = trim({ByteOffset{start}, ByteCount{end - start}, {}});
  ASSERT_TRUE(ok(trimmed));
  ASSERT_FALSE(discarded_.empty());
  // Only whole granules.
  EXPECT_EQ(discarded_.front().offset.v, all[1].offset.v + 3 * MiB + kGranule);
  EXPECT_EQ(discarded_.back().offset.v + discarded_.back().length.v, all[2].offset.v + 2 * MiB);
  EXPECT_EQ(trimmed->v, round_down(end, kGranule) - round_up(start, kGranule));
  // Where nothing is free, and where only logs and metadata lie.
  EXPECT_EQ(trim({ByteOffset{0}, ByteCount{MiB}, {}})->v, 0u);
  EXPECT_EQ(trim({ByteOffset{kSize - kDeviceBlock}, ByteCount{UINT64_MAX}, {}})->v, 0u);
  EXPECT_TRUE(discarded_.empty());
}

TEST_F(Trim, LeavesShortRunsAlone) {
  fill(9);
  for (int i = 0; i < 9; i += 2) ASSERT_TRUE(ok(volume_->remove("t" + std::to_string(i))));
  ASSERT_TRUE(ok(volume_->commit()));
  const std::uint64_t largest = volume_->usage().largest_free.v;
  ASSERT_GT(largest, 64 * MiB);
  ASSERT_GT(free(), largest);
  // Of a long run all pieces, also the last one, which is shorter than that.
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{largest}})->v, largest);
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{kFile + kGranule}})->v, largest);
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{kFile}})->v, free());
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{largest + 1}})->v, 0u);
}

TEST_F(Trim, RefusesWhatMakesNoSense) {
  EXPECT_EQ(trim({ByteOffset{kSize}, ByteCount{UINT64_MAX}, {}}).error().code, EINVAL);
  EXPECT_EQ(trim({ByteOffset{UINT64_MAX}, ByteCount{UINT64_MAX}, {}}).error().code, EINVAL);
  EXPECT_EQ(trim({{}, ByteCount{0}, {}}).error().code, EINVAL);
  EXPECT_EQ(trim({{}, ByteCount{kDeviceBlock - 1}, {}}).error().code, EINVAL);
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{kSize + 1}}).error().code, EINVAL);
  EXPECT_EQ(trim({{}, ByteCount{UINT64_MAX}, ByteCount{UINT64_MAX}}).error().code, EINVAL);
  EXPECT_TRUE(discarded_.empty());
}

TEST_F(Trim, WritesNothingToADeviceForReading) {
  SparseDevice writable{SparseImage(kSize)};
  ASSERT_TRUE(ok(Volume::format(writable, {})));
  SparseDevice device(writable.image(), false);
  auto volume = Volume::open(device);
  ASSERT_TRUE(ok(volume));
  EXPECT_EQ((*volume)->trim({}, kNever).error().code, EROFS);
}

TEST_F(Trim, SaysThatTheDeviceCannotOrFailsAndTheVolumeGoesOn) {
  fill(2);
  const std::uint64_t before = free();
  for (const int code : {EOPNOTSUPP, EIO}) {
    on_discard_ = [&]() -> Result<void> { return make_error(code, "discard"); };
    EXPECT_EQ(trim().error().code, code);
    EXPECT_EQ(discarded_.size(), 1u);
    EXPECT_EQ(free(), before);
    EXPECT_FALSE(volume_->failure());
    ASSERT_TRUE(ok(write_file(*volume_, "after", FileKind::table, contents(7))));
    EXPECT_TRUE(contents_of(*volume_, "after") == contents(7));
    ASSERT_TRUE(ok(volume_->remove("after")));
    ASSERT_TRUE(ok(volume_->commit()));
  }
  on_discard_ = [] { return Result<void>(); };
  EXPECT_EQ(trim()->v, before);
}

TEST_F(Trim, EndsWhenItIsTold) {
  int pieces = 0;
  EXPECT_EQ(trim({}, [&] { return ++pieces > 2; }).error().code, EINTR);
  EXPECT_EQ(discarded_.size(), 2u);
  EXPECT_EQ(trim()->v, free());
}

TEST_F(Trim, FailsWithWhatStoppedTheVolume) {
  bool broken = false;
  const auto device = hooked_device(*memory_, [&](const DeviceEvent& event, Bytes) -> Result<void> {
    EXPECT_FALSE(broken && event.kind == DeviceEvent::Kind::discard);
    return broken ? Result<void>(make_error(EIO, "broken")) : Result<void>();
  });
  volume_.reset();
  auto volume = Volume::open(*device);
  ASSERT_TRUE(ok(volume));
  broken = true;
  EXPECT_FALSE((*volume)->create("x", FileKind::table).value()->append(as_bytes(pattern(3 * MiB, 1))));
  EXPECT_EQ((*volume)->trim({}, kNever).error().code, EIO);
}

// ---- what others do meanwhile

TEST_F(Trim, WhatIsBeingDiscardedCountsAsFree) {
  fill(3);
  const std::uint64_t before = free();
  int seen = 0;
  on_discard_ = [&]() -> Result<void> {
    EXPECT_EQ(free(), before);
    ++seen;
    return {};
  };
  ASSERT_TRUE(ok(trim()));
  EXPECT_GT(seen, 1);
}

TEST_F(Trim, AFileIsWrittenElsewhereWhileItWaitsForTheDevice) {
  Gate gate;
  on_discard_ = [&]() -> Result<void> {
    gate.pass();
    return {};
  };
  std::thread trimming([&] { EXPECT_TRUE(ok(trim())); });
  ASSERT_TRUE(gate.await(1));
  fill(2);
  ASSERT_TRUE(ok(volume_->remove("t0")));
  ASSERT_TRUE(ok(volume_->commit()));
  gate.open();
  trimming.join();
  EXPECT_TRUE(contents_of(*volume_, "t1") == contents(1));
}

TEST_F(Trim, WhoNeedsAllTheSpaceWaitsForThePieceAndThenGetsIt) {
  Gate gate;
  on_discard_ = [&]() -> Result<void> {
    gate.pass();
    return {};
  };
  const std::uint64_t all = free();
  Result<ByteCount> trimmed = ByteCount{};
  std::thread trimming([&] { trimmed = trim(); });
  ASSERT_TRUE(gate.await(1));
  const std::string large = pattern(all, 5);
  WatchedThread writing([&] { EXPECT_TRUE(ok(write_file(*volume_, "all", FileKind::table, large))); });
  EXPECT_TRUE(writing.await("space that is being discarded"));
  gate.open();
  writing.join();
  trimming.join();
  ASSERT_TRUE(ok(trimmed));
  EXPECT_TRUE(contents_of(*volume_, "all") == large);
}

TEST_F(Trim, WhoFindsNoSpaceAtAllIsToldSo) {
  auto writer = volume_->create("all", FileKind::table);
  ASSERT_TRUE(ok(writer));
  ASSERT_TRUE(ok((*writer)->append(as_bytes(pattern(free() - 40 * MiB, 5)))));
  ASSERT_TRUE(ok((*writer)->close()));
  Gate gate;
  on_discard_ = [&]() -> Result<void> {
    gate.pass();
    return {};
  };
  std::thread trimming([&] { EXPECT_TRUE(ok(trim())); });
  ASSERT_TRUE(gate.await(1));
  WatchedThread writing([&] {
    EXPECT_EQ(volume_->create("more", FileKind::table).value()->append(as_bytes(pattern(41 * MiB, 6))).error().code, ENOSPC);
    EXPECT_TRUE(ok(write_file(*volume_, "less", FileKind::table, pattern(39 * MiB, 7))));
  });
  EXPECT_TRUE(writing.await("space that is being discarded"));
  gate.open();
  writing.join();
  trimming.join();
}

// ---- power cuts

TEST(TrimPowerCut, AFileThatARemovalMayStillLeaveIsWhole) {
  std::mt19937_64 random(test::drawn_seed());
  SparseDevice before{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(before, {})));
  const std::string contents = pattern(1200 * KiB, 1);
  {
    auto volume = Volume::open(before);
    ASSERT_TRUE(ok(volume));
    for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(ok(write_file(**volume, name, FileKind::table, contents)));
  }
  SparseDevice device{before.image()};
  device.record();
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(ok((*volume)->remove("a")));
    ASSERT_TRUE(ok((*volume)->trim({}, kNever)));
    ASSERT_TRUE(ok((*volume)->rename("c", "b")));  // which frees the old b
    ASSERT_TRUE(ok((*volume)->trim({}, kNever)));
  }
  auto trace = device.trace();
  ASSERT_TRUE(std::any_of(trace.begin(), trace.end(), [](const auto& event) { return event.discarded > 0; }));
  test::draw_discards(trace, random);
  PowerCut power(before.image(), trace);
  while (power.advance()) {
    for (int tries = 0; tries < 3; ++tries) {
      for (Survivors which : {Survivors::all, Survivors::none, Survivors::random_whole, Survivors::random_torn}) {
        SparseDevice cut{power.image(which, random)};
        auto volume = Volume::open(cut);
        ASSERT_TRUE(ok(volume));
        for (const auto& name : (*volume)->list()) {
          ASSERT_TRUE(contents_of(**volume, name) == contents) << name << " after event " << power.events();
        }
      }
    }
  }
}

}  // namespace
}  // namespace lsmfs::trim_test
