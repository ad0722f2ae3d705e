// A volume that is given another size: nothing of what it holds is lost or changed, whenever the power is cut.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "seed.h"
#include "volume/sparse_device.h"
#include "volume/superblock.h"
#include "volume/support.h"

namespace lsmfs::resize_test {
namespace {

using test::contents_of;
using test::ok;
using test::PowerCut;
using test::SparseDevice;
using test::SparseImage;
using test::Survivors;
using test::TraceEvent;

constexpr std::uint64_t kSmall = 128 * MiB, kLarge = 160 * MiB + 4096;

const auto nobody = [](ByteCount, ByteCount) {};

// Files at both ends of the table region, in one piece and in many, and a log that the fixed region has no room for.
std::map<std::string, std::string> fill(Volume& volume) {
  std::map<std::string, std::string> files;
  const auto add = [&](const std::string& name, FileKind kind, std::uint64_t size, Lifetime lifetime) {
    files[name] = test::pattern(size, files.size());
    auto writer = volume.create(name, kind);
    ASSERT_TRUE(ok(writer));
    (*writer)->set_lifetime(lifetime);
    ASSERT_TRUE(ok((*writer)->reserve(ByteCount{size})));
    ASSERT_TRUE(ok((*writer)->append(as_bytes(files[name]))));
    ASSERT_TRUE(ok((*writer)->sync()));
    ASSERT_TRUE(ok((*writer)->close()));
  };
  add("early", FileKind::table, 3 * MiB + 17, Lifetime::brief);
  for (int i = 0; i < 24; ++i) add("hole" + std::to_string(i), FileKind::table, 64 * KiB, Lifetime::lasting);
  add("log", FileKind::log, 20 * MiB, Lifetime::brief);
  add("small", FileKind::small, 1000, Lifetime::brief);
  for (int i = 0; i < 24; i += 2) {
    EXPECT_TRUE(ok(volume.remove("hole" + std::to_string(i))));
    files.erase("hole" + std::to_string(i));
  }
  EXPECT_TRUE(ok(volume.commit()));
  add("late", FileKind::table, 5 * MiB, Lifetime::lasting);
  return files;
}

void expect_files(Volume& volume, const std::map<std::string, std::string>& files) {
  ASSERT_EQ(volume.list().size(), files.size());
  for (const auto& [name, contents] : files) ASSERT_TRUE(contents_of(volume, name) == contents) << name;
}

void expect_sound(SparseImage image, const std::map<std::string, std::string>& files, std::uint64_t size) {
  SparseDevice device(std::move(image));
  std::string notices;
  auto volume = Volume::open(device, {.notice = [&](std::string_view line) { notices += line; }});
  ASSERT_TRUE(ok(volume));
  EXPECT_EQ(notices, "");
  EXPECT_EQ((*volume)->info().device_size.v, size);
  expect_files(**volume, files);
  ScrubRange range;
  while (!range.done()) {
    const auto step = (*volume)->scrub(range, [] { return false; });
    ASSERT_TRUE(ok(step));
    EXPECT_TRUE(step->damage.empty()) << step->damage.front();
  }
  ASSERT_TRUE(ok(test::write_file(**volume, "after", FileKind::table, test::pattern(4 * MiB, 99))));
  EXPECT_TRUE(contents_of(**volume, "after") == test::pattern(4 * MiB, 99));
}

struct Prepared {
  SparseImage image;
  std::map<std::string, std::string> files;
};
Prepared prepared(std::uint64_t size) {
  SparseDevice device{SparseImage(size)};
  EXPECT_TRUE(ok(Volume::format(device, {})));
  auto volume = Volume::open(device);
  EXPECT_TRUE(ok(volume));
  auto files = fill(**volume);
  volume->reset();
  return {device.image(), std::move(files)};
}

SparseImage resized(SparseImage image, std::uint64_t size) {
  image.set_size(size);
  return image;
}

TEST(Resize, GrowsWhileItIsUsed) {
  auto [image, files] = prepared(kSmall);
  SparseDevice device{resized(image, kLarge)};
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    auto reader = (*volume)->open_reader("late");
    ASSERT_TRUE(ok(reader));
    auto writer = (*volume)->create("across", FileKind::table);
    ASSERT_TRUE(ok(writer));
    files["across"] = test::pattern(60 * MiB, 5) + test::pattern(30 * MiB, 6);
    ASSERT_TRUE(ok((*writer)->append(as_bytes(files["across"]).first(60 * MiB))));
    const VolumeUsage before = (*volume)->usage();
    ASSERT_TRUE(ok((*volume)->grow(ByteCount{kLarge})));
    const VolumeUsage after = (*volume)->usage();
    EXPECT_EQ(after.table_total.v - before.table_total.v, 32 * MiB);
    EXPECT_EQ(after.table_free.v - before.table_free.v, 32 * MiB);
    EXPECT_EQ((*volume)->table_total_with(ByteCount{kLarge})->v, after.table_total.v);
    EXPECT_EQ((*volume)->info().device_size.v, kLarge);
    ASSERT_TRUE(ok((*writer)->append(as_bytes(files["across"]).subspan(60 * MiB))));
    ASSERT_TRUE(ok((*writer)->sync()));
    ASSERT_TRUE(ok((*writer)->close()));
    EXPECT_TRUE(test::read_all(**reader) == files["late"]);
    ASSERT_TRUE(ok((*volume)->change({.label = "grown"})));
  }
  expect_sound(device.image(), files, kLarge);
}

TEST(Resize, ShrinksOntoADeviceThatEndsThere) {
  auto [image, files] = prepared(kLarge);
  SparseDevice device{image};
  std::uint64_t last = 0, all = 0;
  ASSERT_TRUE(ok(Volume::shrink(device, ByteCount{kSmall}, [&](ByteCount done, ByteCount of) {
    EXPECT_GE(done.v, last);
    last = done.v, all = of.v;
  })));
  EXPECT_GT(all, 5 * MiB);
  EXPECT_EQ(last, all);
  expect_sound(resized(device.image(), kSmall), files, kSmall);
  expect_sound(device.image(), files, kSmall);  // the device may be longer

  SparseDevice again{device.image()};
  {
    auto volume = Volume::open(again);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(ok((*volume)->grow(ByteCount{kLarge})));
  }
  expect_sound(again.image(), files, kLarge);
}

TEST(Resize, FindsTheSecondSuperblockAtTheNewEnd) {
  auto [image, files] = prepared(kLarge);
  SparseDevice device{image};
  ASSERT_TRUE(ok(Volume::shrink(device, ByteCount{kSmall}, nobody)));
  SparseDevice cut{resized(device.image(), kSmall)};
  const AlignedBuffer zeros(kDeviceBlock);
  ASSERT_TRUE(ok(cut.write(ByteOffset{0}, zeros.bytes())));
  EXPECT_EQ(read_volume_info(cut)->device_size.v, kSmall);
  // And never the one that says the old size.
  ASSERT_TRUE(ok(device.write(ByteOffset{0}, zeros.bytes())));
  EXPECT_EQ(read_volume_info(device).error().code, EMEDIUMTYPE);
}

TEST(Resize, RefusesWhatCannotBeAndChangesNothing) {
  auto [image, files] = prepared(kLarge);
  SparseDevice device{image};
  device.record();
  EXPECT_EQ(Volume::shrink(device, ByteCount{kDeviceMin - 4096}, nobody).error().code, ENOSPC);
  EXPECT_EQ(Volume::shrink(device, ByteCount{kLarge + 4096}, nobody).error().code, EINVAL);
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    EXPECT_EQ((*volume)->grow(ByteCount{kLarge - 4096}).error().code, EINVAL);
    EXPECT_EQ((*volume)->grow(ByteCount{kLarge + 4096}).error().code, ENOSPC);
    EXPECT_EQ((*volume)->table_total_with(ByteCount{64 * MiB}).error().code, ENOSPC);
    EXPECT_EQ((*volume)->table_total_with(ByteCount{1024 * GiB}).error().code, EFBIG);
  }
  SparseDevice reading(device.image(), false);
  EXPECT_EQ(Volume::shrink(reading, ByteCount{kSmall}, nobody).error().code, EROFS);
  {
    auto volume = Volume::open(reading);
    ASSERT_TRUE(ok(volume));
    EXPECT_EQ((*volume)->grow(ByteCount{kLarge}).error().code, EROFS);
  }
  for (const auto& event : device.trace()) EXPECT_TRUE(event.flush);
  expect_sound(device.image(), files, kLarge);
}

TEST(Resize, RefusesASizeThatHasNoRoomForWhatIsThere) {
  SparseDevice device{SparseImage(kLarge)};
  ASSERT_TRUE(ok(Volume::format(device, {})));
  std::map<std::string, std::string> files;
  {
    auto volume = Volume::open(device);
    ASSERT_TRUE(ok(volume));
    files["large"] = test::pattern(120 * MiB, 1);
    ASSERT_TRUE(ok(test::write_file(**volume, "large", FileKind::table, files["large"])));
  }
  EXPECT_EQ(Volume::shrink(device, ByteCount{kSmall}, nobody).error().code, ENOSPC);
  expect_sound(device.image(), files, kLarge);
}

// `resize` is done on a device that records; whenever the power is cut, all is there, and resizing can be done again.
template <class Resize>
void cut_power(const SparseImage& start, const std::map<std::string, std::string>& files, std::uint64_t from, std::uint64_t to, Resize resize) {
  std::mt19937_64 random(test::drawn_seed());
  SparseDevice device{start};
  device.record();
  ASSERT_TRUE(ok(resize(device)));
  const auto trace = device.trace();
  PowerCut power(start, trace);
  bool old = false, changed = false;
  while (power.advance()) {
    const std::array kinds{Survivors::all, Survivors::none, Survivors::random_whole, Survivors::random_torn, Survivors::random_torn};
    for (const Survivors which : {kinds[power.events() % kinds.size()], kinds[random() % kinds.size()]}) {
      SparseDevice cut{power.image(which, random)};
      {
        auto volume = Volume::open(cut);
        ASSERT_TRUE(ok(volume)) << "after event " << power.events() << " of " << trace.size();
        const std::uint64_t size = (*volume)->info().device_size.v;
        ASSERT_TRUE(size == from || size == to) << size;
        (size == from ? old : changed) = true;
        expect_files(**volume, files);
      }
      if (which != Survivors::random_torn) continue;
      ASSERT_TRUE(ok(resize(cut))) << "after event " << power.events() << " of " << trace.size();
      auto volume = Volume::open(cut);
      ASSERT_TRUE(ok(volume));
      ASSERT_EQ((*volume)->info().device_size.v, to);
      expect_files(**volume, files);
    }
  }
  EXPECT_TRUE(old && changed);
}

TEST(ResizePowerCut, LosesNothingOfAVolumeThatShrinks) {
  const auto [image, files] = prepared(kLarge);
  cut_power(image, files, kLarge, kSmall, [](Device& device) { return Volume::shrink(device, ByteCount{kSmall}, nobody); });
}

// The test finds it if what was copied need not be there when a record says that it is.
TEST(ResizePowerCut, FindsFlushesThatDoNothing) {
  std::mt19937_64 random(test::drawn_seed());
  const auto [image, files] = prepared(kLarge);
  SparseDevice device{image};
  device.record();
  ASSERT_TRUE(ok(Volume::shrink(device, ByteCount{kSmall}, nobody)));
  auto trace = device.trace();
  std::erase_if(trace, [](const TraceEvent& event) { return event.flush; });
  PowerCut power(image, trace);
  int lost = 0;
  while (power.advance() && lost == 0) {
    for (int tries = 0; tries < 4; ++tries) {
      SparseDevice cut{power.image(Survivors::random_whole, random)};
      const auto volume = Volume::open(cut);
      lost += !volume;
      for (const auto& [name, contents] : files) {
        if (!volume) break;
        const auto reader = (*volume)->open_reader(name);
        std::string found(contents.size(), '\0');
        lost += !reader || !(*reader)->read(ByteOffset{0}, {reinterpret_cast<std::byte*>(found.data()), found.size()}) || found != contents;
      }
    }
  }
  EXPECT_GT(lost, 0);
}

TEST(ResizePowerCut, LosesNothingOfAVolumeThatGrows) {
  const auto [image, files] = prepared(kSmall);
  cut_power(resized(image, kLarge), files, kSmall, kLarge, [](Device& device) -> Result<void> {
    LSMFS_ASSIGN(const auto volume, Volume::open(device));
    return volume->grow(ByteCount{kLarge});
  });
}

}  // namespace
}  // namespace lsmfs::resize_test
