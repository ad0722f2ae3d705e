// The label of an open volume: it changes at one moment, and at every moment one superblock is sound.
#include <gtest/gtest.h>

#include <set>

#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::label_test {
namespace {

using test::contents_of;
using test::ok;
using test::PowerCut;
using test::SparseDevice;
using test::SparseImage;
using test::Survivors;
using test::TraceEvent;

constexpr std::uint64_t kSize = 128 * MiB;
constexpr std::uint64_t kSecond = kSize - MiB;

class LabelTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(ok(Volume::format(device_, {"old", Uuid::random()}))); }

  std::string block(Device& device, std::uint64_t at) {
    AlignedBuffer buffer(kDeviceBlock);
    EXPECT_TRUE(ok(device.read(ByteOffset{at}, buffer.bytes())));
    return std::string(as_text(Bytes(buffer.bytes())));
  }
  static void damage(Device& device, std::uint64_t at) {
    AlignedBuffer buffer(kDeviceBlock);
    ASSERT_TRUE(ok(device.write(ByteOffset{at}, buffer.bytes())));
  }

  SparseDevice device_{SparseImage(kSize)};
};

TEST_F(LabelTest, IsThereAtOnceAndAfterTheNextOpen) {
  VolumeInfo before;
  {
    auto volume = Volume::open(device_);
    ASSERT_TRUE(ok(volume));
    before = (*volume)->info();
    for (const std::string& label : {std::string("new"), std::string(), std::string("größer"), std::string(kLabelMax, 'x')}) {
      ASSERT_TRUE(ok((*volume)->change({.label = label})));
      EXPECT_EQ((*volume)->info().label, label);
      EXPECT_EQ(read_volume_info(device_)->label, label);
    }
    ASSERT_TRUE(ok((*volume)->change({.label = "last"})));
    ASSERT_TRUE(ok(test::write_file(**volume, "file", FileKind::table, "contents")));
  }
  std::string notices;
  auto again = Volume::open(device_, {[&](std::string_view line) { notices += line; }});
  ASSERT_TRUE(ok(again));
  EXPECT_EQ(notices, "");
  EXPECT_EQ(block(device_, 0), block(device_, kSecond));
  const VolumeInfo after = (*again)->info();
  EXPECT_EQ(after.label, "last");
  EXPECT_EQ(after.uuid, before.uuid);
  EXPECT_EQ(after.created_ns, before.created_ns);
  EXPECT_EQ(after.device_size, before.device_size);
  EXPECT_EQ(contents_of(**again, "file"), "contents");
}

TEST_F(LabelTest, RefusesWhatMkfsRefuses) {
  auto volume = Volume::open(device_);
  ASSERT_TRUE(ok(volume));
  for (const std::string& label : {std::string(kLabelMax + 1, 'x'), std::string("a\nb"), std::string("\xff"), std::string(1, '\0')}) {
    EXPECT_EQ((*volume)->change({.label = label}).error().code, EINVAL);
  }
  EXPECT_EQ((*volume)->info().label, "old");
  SparseDevice reading(device_.image(), false);
  auto read_only = Volume::open(reading);
  ASSERT_TRUE(ok(read_only));
  EXPECT_EQ((*read_only)->change({.label = "new"}).error().code, EROFS);
  EXPECT_EQ((*read_only)->change({.label = "a\nb"}).error().code, EINVAL);  // as ext4: what is asked comes first
}

TEST_F(LabelTest, IsTheOldOrTheNewOneAfterAPowerCut) {
  std::mt19937_64 random(test::drawn_seed());
  for (const int damaged : {-1, 0, 1}) {
    SparseDevice start{device_.image()};
    if (damaged >= 0) damage(start, damaged == 0 ? 0 : kSecond);
    SparseDevice device{start.image()};
    device.record();
    std::size_t done = 0;
    {
      auto volume = Volume::open(device);
      ASSERT_TRUE(ok(volume));
      ASSERT_TRUE(ok((*volume)->change({.label = "new"})));
      done = device.events();
    }
    const auto trace = device.trace();
    PowerCut power(start.image(), trace);
    std::set<std::string> seen;
    while (power.advance()) {
      // The block that is being written may be left as anything at all.
      if (const TraceEvent& last = trace[power.events() - 1]; last.data) {
        SparseDevice cut{power.image(Survivors::none, random)};
        damage(cut, last.at);
        const auto info = read_volume_info(cut);
        ASSERT_TRUE(ok(info)) << "damaged " << damaged << ", in event " << power.events();
        ASSERT_TRUE(info->label == "old" || info->label == "new") << info->label;
      }
      for (int tries = 0; tries < 20; ++tries) {
        for (Survivors which : {Survivors::all, Survivors::none, Survivors::random_whole, Survivors::random_torn}) {
          SparseDevice cut{power.image(which, random)};
          const auto info = read_volume_info(cut);
          ASSERT_TRUE(ok(info)) << "damaged " << damaged << ", after event " << power.events();
          ASSERT_TRUE(info->label == "old" || info->label == "new") << info->label;
          if (power.events() >= done) {
            ASSERT_EQ(info->label, "new");
          }
          seen.insert(info->label);
          // What a power cut left can be given a label again, and loses nothing by another one.
          if (which != Survivors::random_torn) continue;
          SparseDevice next{cut.image()};
          next.record();
          auto volume = Volume::open(next);
          ASSERT_TRUE(ok(volume));
          ASSERT_TRUE(ok((*volume)->change({.label = "newest"})));
          const auto second_trace = next.trace();
          PowerCut second(cut.image(), second_trace);
          while (second.advance()) {
            SparseDevice twice{second.image(Survivors::random_torn, random)};
            ASSERT_TRUE(ok(read_volume_info(twice))) << "damaged " << damaged << ", after events " << power.events()
                                                     << " and " << second.events();
          }
        }
      }
    }
    EXPECT_EQ(seen.size(), 2u);
    EXPECT_EQ(block(device, 0), block(device, kSecond));  // also where there was damage
  }
}

TEST_F(LabelTest, AWriteThatFailsStopsTheVolumeAndLeavesAnOldOrNewOne) {
  for (int failing = 0; failing < 4; ++failing) {  // the two writes and their flushes
    SparseDevice memory{device_.image()};
    int left = -1;
    const auto device = hooked_device(memory, [&](const DeviceEvent& event, Bytes) -> Result<void> {
      if (event.kind == DeviceEvent::Kind::read || left < 0) return {};
      return left-- == 0 ? Result<void>(make_error(EIO, "broken")) : Result<void>();
    });
    auto volume = Volume::open(*device);
    ASSERT_TRUE(ok(volume));
    left = failing;
    EXPECT_EQ((*volume)->change({.label = "new"}).error().code, EIO);
    EXPECT_EQ((*volume)->info().label, "old");
    EXPECT_TRUE((*volume)->failure());
    EXPECT_EQ((*volume)->change({.label = "new"}).error().code, EIO);
    volume->reset();
    const auto info = read_volume_info(memory);
    ASSERT_TRUE(ok(info));
    EXPECT_TRUE(info->label == "old" || info->label == "new");
  }
}

}  // namespace
}  // namespace lsmfs::label_test
