#include "lsmfs/volume.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/superblock.h"
#include "volume/support.h"

namespace lsmfs::volume_test {
namespace {

using test::contents_of;
using test::ok;
using test::pattern;
using test::write_file;

class VolumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ok(Volume::format(*device_, {"label", Uuid::random()})));
    reopen();
  }
  void reopen() {
    volume_.reset();
    auto volume = Volume::open(*device_);
    ASSERT_TRUE(volume) << volume.error().message();
    volume_ = std::move(*volume);
  }
  std::unique_ptr<Device> device_ = memory_device(ByteCount{160 * MiB});
  std::unique_ptr<Volume> volume_;
};

TEST_F(VolumeTest, KeepsWhatWasSyncedOfEveryKindOverAReopen) {
  const std::size_t sizes[] = {0, 1, 4095, 4096, 4097, 65536, 65537, 262144, 262145, 1000000, 1048576, 1048577, 5000001};
  for (FileKind kind : {FileKind::table, FileKind::log, FileKind::small}) {
    for (std::size_t size : sizes) {
      const auto name = std::to_string(static_cast<int>(kind)) + "-" + std::to_string(size);
      ASSERT_TRUE(ok(write_file(*volume_, name, kind, pattern(size, size))));
      EXPECT_TRUE(contents_of(*volume_, name) == pattern(size, size)) << name;
    }
  }
  reopen();
  for (FileKind kind : {FileKind::table, FileKind::log, FileKind::small}) {
    for (std::size_t size : sizes) {
      const auto name = std::to_string(static_cast<int>(kind)) + "-" + std::to_string(size);
      auto known = volume_->size_of(name);
      ASSERT_TRUE(ok(known));
      EXPECT_EQ(known->v, size) << name;
      EXPECT_TRUE(contents_of(*volume_, name) == pattern(size, size)) << name;
    }
  }
}

TEST_F(VolumeTest, AppendsToAFileThatWasSyncedAndClosed) {
  for (FileKind kind : {FileKind::table, FileKind::log, FileKind::small}) {
    std::string expected;
    std::mt19937_64 random(1);
    for (int i = 0; i < 20; ++i) {
      auto writer = i == 0 ? volume_->create("f", kind) : volume_->reopen("f");
      ASSERT_TRUE(ok(writer));
      const std::string more = pattern(random() % 300000, random());
      ASSERT_TRUE(ok((*writer)->append(as_bytes(more))));
      expected += more;
      EXPECT_EQ((*writer)->size().v, expected.size());
      ASSERT_TRUE(ok((*writer)->sync()));
      if (i % 2) {
        ASSERT_TRUE(ok((*writer)->close()));
      }
      EXPECT_TRUE(contents_of(*volume_, "f") == expected);
      writer->reset();
      if (i % 3 == 0) reopen();
      EXPECT_TRUE(contents_of(*volume_, "f") == expected);
    }
  }
}

TEST_F(VolumeTest, WritesWhatIsAlignedFromWhereItLies) {
  AlignedBuffer aligned(300 * KiB);
  const std::string bytes = pattern(aligned.size(), 3);
  std::ranges::copy(as_bytes(bytes), aligned.data());
  std::uint64_t from_there = 0;
  volume_.reset();
  auto device = hooked_device(*device_, [&](const DeviceEvent& event, Bytes data) -> Result<void> {
    const bool there = data.data() >= aligned.data() && data.data() < aligned.data() + aligned.size();
    if (event.kind == DeviceEvent::Kind::write && there) from_there += data.size();
    return {};
  });
  auto volume = Volume::open(*device);
  ASSERT_TRUE(ok(volume));
  auto writer = (*volume)->create("f", FileKind::table);
  ASSERT_TRUE(ok(writer));
  std::string expected;
  const auto append = [&](std::size_t size) {
    expected += bytes.substr(0, size);
    ASSERT_TRUE(ok((*writer)->append(Bytes(aligned.bytes()).first(size))));
    EXPECT_EQ((*writer)->size().v, expected.size());
  };
  append(128 * KiB);
  EXPECT_EQ(from_there, 128 * KiB);
  append(100 * KiB + 5);  // but for its end
  EXPECT_EQ(from_there, 228 * KiB);
  EXPECT_TRUE(contents_of(**volume, "f") == expected);
  append(128 * KiB);  // within a block
  append(128 * KiB - 5);
  EXPECT_EQ(from_there, 228 * KiB);
  ASSERT_TRUE(ok((*writer)->sync()));
  append(300 * KiB);
  EXPECT_EQ(from_there, 528 * KiB);
  EXPECT_TRUE(contents_of(**volume, "f") == expected);
  append(5);
  ASSERT_TRUE(ok((*writer)->sync()));
  append(200 * KiB);
  EXPECT_TRUE(contents_of(**volume, "f") == expected);
  ASSERT_TRUE(ok((*writer)->sync()));
  writer->reset();
  volume->reset();
  reopen();
  EXPECT_TRUE(contents_of(*volume_, "f") == expected);
}

TEST_F(VolumeTest, NeverWritesABlockAgainThatHoldsSyncedBytes) {
  for (FileKind kind : {FileKind::table, FileKind::log, FileKind::small}) {
    std::set<std::uint64_t> synced;  // blocks that the last sync made durable
    std::set<std::uint64_t> fresh;
    bool again = false;
    const Layout layout = *plan_layout(device_->size().v);
    auto device = hooked_device(*device_, [&](const DeviceEvent& event, Bytes data) -> Result<void> {
      if (event.kind != DeviceEvent::Kind::write || event.offset.v < layout.fixed.start) return {};
      for (std::uint64_t i = 0; i < data.size(); i += kDeviceBlock) {
        again = again || synced.contains(event.offset.v + i);
        fresh.insert(event.offset.v + i);
      }
      return {};
    });
    auto volume = Volume::open(*device);
    ASSERT_TRUE(ok(volume));
    const auto name = std::to_string(static_cast<int>(kind));
    auto writer = (*volume)->create(name, kind);
    ASSERT_TRUE(ok(writer));
    std::string expected;
    for (int i = 0; i < 12; ++i) {
      const std::string more = pattern(static_cast<std::size_t>(i) * 7001 % 20000 + 1, static_cast<std::uint64_t>(i));
      expected += more;
      ASSERT_TRUE(ok((*writer)->append(as_bytes(more))));
      EXPECT_TRUE(contents_of(**volume, name) == expected);  // writes out a partial block, which may be written again
      ASSERT_TRUE(ok((*writer)->sync()));
      // Only those of the last sync: what was given up before may be in use again.
      synced = fresh;
      fresh.clear();
    }
    EXPECT_FALSE(again) << name;
    EXPECT_TRUE(contents_of(**volume, name) == expected);
  }
}

TEST_F(VolumeTest, RenameReplacesAndRemoveFrees) {
  const auto before = volume_->usage();
  ASSERT_TRUE(ok(write_file(*volume_, "a", FileKind::table, pattern(3000000, 1))));
  ASSERT_TRUE(ok(write_file(*volume_, "b", FileKind::table, pattern(2000000, 2))));
  auto reader = volume_->open_reader("b");
  ASSERT_TRUE(ok(reader));
  ASSERT_TRUE(ok(volume_->rename("a", "b")));
  EXPECT_EQ(volume_->rename("a", "c").error().code, ENOENT);
  EXPECT_EQ(volume_->list(), std::vector<std::string>{"b"});
  EXPECT_TRUE(contents_of(*volume_, "b") == pattern(3000000, 1));
  ASSERT_TRUE(ok(volume_->commit()));
  EXPECT_TRUE(test::read_all(**reader) == pattern(2000000, 2));
  reader->reset();
  ASSERT_TRUE(ok(volume_->remove("b")));
  ASSERT_TRUE(ok(volume_->commit()));
  EXPECT_EQ(volume_->usage().table_free, before.table_free);
  reopen();
  EXPECT_TRUE(volume_->list().empty());
  EXPECT_EQ(volume_->usage().table_free, before.table_free);
}

TEST_F(VolumeTest, AFileTakesWhatItAsksForAndNoMore) {
  const std::uint64_t free = volume_->usage().table_free.v;
  auto writer = volume_->create("a", FileKind::table);
  ASSERT_TRUE(ok(writer));
  ASSERT_TRUE(ok((*writer)->allocate(ByteCount{MiB + 1})));
  EXPECT_EQ(volume_->usage().table_free.v, free - MiB - kTableGranule);
  ASSERT_TRUE(ok((*writer)->append(as_bytes(pattern(MiB, 1)))));
  EXPECT_EQ(volume_->usage().table_free.v, free - MiB - kTableGranule);
  ASSERT_TRUE(ok((*writer)->close()));
  EXPECT_EQ(volume_->usage().table_free.v, free - MiB);
}

TEST(VolumeAfterAPowerCut, ALogStaysCutWhoseLastFramesWereLost) {
  test::SparseDevice formatted{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(formatted, {})));
  for (const std::uint64_t keep : {0, 700}) {
    test::SparseDevice device{formatted.image()};
    device.record();
    std::size_t lost = 0;  // the write of the last frame
    {
      auto volume = Volume::open(device);
      ASSERT_TRUE(ok(volume));
      auto log = (*volume)->create("log", FileKind::log);
      ASSERT_TRUE(ok(log));
      ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(1345, 1)))));
      ASSERT_TRUE(ok((*log)->sync()));
      ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(2000, 2)))));
      lost = device.events();
      contents_of(**volume, "log");  // which writes what is buffered
      ASSERT_EQ(device.events(), lost + 1);
      ASSERT_TRUE(ok((*log)->truncate(ByteCount{keep})));
      ASSERT_TRUE(ok((*volume)->commit()));
    }
    test::SparseImage image = formatted.image();
    const auto trace = device.trace();
    for (std::size_t i = 0; i < trace.size(); ++i) {
      if (i != lost && trace[i].data) image.write(trace[i].at, *trace[i].data);
    }
    test::SparseDevice cut{image};
    for (int round = 0; round < 3; ++round) {
      auto volume = Volume::open(cut);
      ASSERT_TRUE(ok(volume));
      EXPECT_TRUE(contents_of(**volume, "log") == pattern(1345, 1).substr(0, keep)) << "round " << round;
      // Whoever wants to append and then does not has changed nothing.
      auto log = (*volume)->reopen("log");
      ASSERT_TRUE(ok(log));
      ASSERT_TRUE(ok((*volume)->commit()));
    }
    auto volume = Volume::open(cut);
    ASSERT_TRUE(ok(volume));
    {
      auto log = (*volume)->reopen("log");
      ASSERT_TRUE(ok(log));
      for (int i = 0; i < 4; ++i) {  // frames with the numbers of the lost one and after it
        ASSERT_TRUE(ok((*log)->append(as_bytes("more"))));
        ASSERT_TRUE(ok((*log)->sync()));
      }
    }
    volume = Volume::open(cut);
    ASSERT_TRUE(ok(volume));
    EXPECT_TRUE(contents_of(**volume, "log") == pattern(1345, 1).substr(0, keep) + "moremoremoremore");
  }
}

TEST(VolumeAfterAPowerCut, ALogThatWasCutTwiceStaysCutWhenWhatCameBetweenIsLost) {
  std::mt19937_64 random(test::drawn_seed());
  test::SparseDevice formatted{test::SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(formatted, {})));
  test::SparseDevice device{formatted.image()};
  device.record();
  std::size_t synced = 0;
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto log = (*volume)->create("log", FileKind::log);
    ASSERT_TRUE(ok(log));
    ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(1345, 1)))));
    ASSERT_TRUE(ok((*log)->sync()));
    ASSERT_TRUE(ok((*log)->truncate(ByteCount{700})));
    ASSERT_TRUE(ok((*log)->sync()));
    synced = device.events();
    ASSERT_TRUE(ok((*log)->append(as_bytes(pattern(1000, 2)))));
    contents_of(**volume, "log");  // which writes what is buffered
    ASSERT_TRUE(ok((*log)->truncate(ByteCount{1500})));
    ASSERT_TRUE(ok((*volume)->commit()));
  }
  const std::string longest = pattern(1345, 1).substr(0, 700) + pattern(1000, 2);
  const auto trace = device.trace();
  test::PowerCut power(formatted.image(), trace);
  while (power.advance()) {
    if (power.events() < synced) continue;
    for (int tries = 0; tries < 40; ++tries) {
      test::SparseDevice cut{power.image(test::Survivors::random_whole, random)};
      auto volume = Volume::open(cut);
      ASSERT_TRUE(ok(volume));
      const std::string found = contents_of(**volume, "log");
      EXPECT_GE(found.size(), 700u);
      EXPECT_TRUE(longest.starts_with(found)) << found.size() << " bytes after event " << power.events();
    }
  }
}

}  // namespace
}  // namespace lsmfs::volume_test
