// Promise 3: after a failed write or flush nothing is changed any more, and what was acknowledged stays.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "volume/sparse_device.h"
#include "volume/support.h"

namespace lsmfs::fail_stop_test {
namespace {

using test::contents_of;
using test::ok;
using test::pattern;
using test::SparseDevice;
using test::SparseImage;

// What the script below got acknowledged.
struct Acknowledged {
  std::map<std::string, std::string> synced;
  std::optional<Error> failure;  // the first that it was told
};

std::string text_of(int i) { return pattern(static_cast<std::size_t>(i) * 40000 + 100, static_cast<std::uint64_t>(i)); }

Acknowledged run_script(Volume& volume) {
  Acknowledged done;
  const auto step = [&](Result<void> r) {
    if (!r && !done.failure) done.failure = r.error();
    return r.has_value();
  };
  std::unique_ptr<FileWriter> wal;
  auto writer = volume.create("wal", FileKind::log);
  if (writer) {
    wal = std::move(*writer);
  } else {
    step(writer.error());
  }
  std::string log;
  for (int i = 0; i < 12 && !done.failure; ++i) {
    const std::string more = pattern(i == 6 ? 3000000 : 30000, 77 + static_cast<std::uint64_t>(i));
    if (!wal || !step(wal->append(as_bytes(more)))) break;
    log += more;
    if (!step(wal->sync())) break;
    done.synced["wal"] = log;
    const std::string name = "t" + std::to_string(i);
    if (!step(test::write_file(volume, "tmp", i % 2 ? FileKind::table : FileKind::small, text_of(i)))) break;
    if (!step(volume.rename("tmp", name)) || !step(volume.commit())) break;
    done.synced[name] = text_of(i);
    if (i % 4 == 3) {
      const std::string old = "t" + std::to_string(i - 2);
      done.synced.erase(old);
      if (!step(volume.remove(old)) || !step(volume.commit())) break;
    }
  }
  return done;
}

class FailStop : public ::testing::TestWithParam<DeviceEvent::Kind> {};

TEST_P(FailStop, HoldsWhicheverRequestFails) {
  SparseDevice formatted{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(formatted, {})));
  int failures = 0;
  for (int n = 0;; ++n) {
    SparseDevice disk{formatted.image()};
    std::atomic<int> left{n};
    // Log files are written by a thread of their own. It does not know of another's failure before the volume does, and may have
    // looked just before.
    std::atomic<bool> failed{false}, told{false}, after{false};
    std::atomic<int> late{0};
    std::atomic<std::thread::id> failed_in{};
    auto device = hooked_device(disk, [&](const DeviceEvent& event, Bytes) -> Result<void> {
      const bool changes = event.kind != DeviceEvent::Kind::read, same = failed_in.load() == std::this_thread::get_id();
      if (changes && (same || (told && ++late > 1))) after = true;
      if (event.kind != GetParam() || left-- != 0) return {};
      failed = true;
      failed_in = std::this_thread::get_id();
      return make_error(ENODEV, "the device is gone");
    });
    auto opened = Volume::open(*device);
    if (!opened) {
      ASSERT_TRUE(failed);
      continue;
    }
    Volume& volume = **opened;
    const Acknowledged done = run_script(volume);
    if (!failed) {
      ASSERT_FALSE(done.failure);
      break;
    }
    ++failures;
    told = true;
    ASSERT_TRUE(done.failure) << n;
    EXPECT_EQ(done.failure->code, ENODEV);
    ASSERT_TRUE(volume.failure());
    EXPECT_EQ(volume.failure()->code, ENODEV);
    EXPECT_EQ(volume.create("x", FileKind::table).error().code, ENODEV);
    EXPECT_EQ(volume.reopen("t0").error().code, ENODEV);
    EXPECT_EQ(volume.rename("wal", "x").error().code, ENODEV);
    EXPECT_EQ(volume.remove("wal").error().code, ENODEV);
    EXPECT_EQ(volume.commit().error().code, ENODEV);
    EXPECT_EQ(volume.trim({}, [] { return false; }).error().code, ENODEV);
    for (const auto& [name, contents] : done.synced) {
      if (volume.exists(name)) {
        EXPECT_TRUE(contents_of(volume, name).substr(0, contents.size()) == contents) << name;
      }
    }
    EXPECT_FALSE(after) << "a write, flush or discard after the failure";
    opened->reset();
    auto again = Volume::open(disk);
    ASSERT_TRUE(ok(again));
    for (const auto& [name, contents] : done.synced) {
      ASSERT_TRUE((*again)->exists(name)) << name << " " << n;
      EXPECT_TRUE(contents_of(**again, name).substr(0, contents.size()) == contents) << name << " " << n;
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(failures, 20);
}

INSTANTIATE_TEST_SUITE_P(, FailStop, ::testing::Values(DeviceEvent::Kind::write, DeviceEvent::Kind::flush),
                         [](const auto& i) { return i.param == DeviceEvent::Kind::write ? "Write" : "Flush"; });

TEST(FailedRead, IsTriedOnceMoreAndThenNamesTheFile) {
  SparseDevice disk{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(disk, {})));
  int fail = 0, reads = 0;
  auto device = hooked_device(disk, [&](const DeviceEvent& event, Bytes) -> Result<void> {
    if (event.kind != DeviceEvent::Kind::read) return {};
    ++reads;
    return fail-- > 0 ? Result<void>(make_error(EREMOTEIO, "bad sector")) : Result<void>();
  });
  auto volume = Volume::open(*device);
  ASSERT_TRUE(ok(volume));
  ASSERT_TRUE(ok(test::write_file(**volume, "some-table", FileKind::table, pattern(100000, 1))));
  auto reader = (*volume)->open_reader("some-table");
  ASSERT_TRUE(ok(reader));
  reads = 0;
  fail = 1;
  EXPECT_TRUE(test::read_all(**reader) == pattern(100000, 1));
  EXPECT_EQ(reads, 2);
  fail = 2;
  std::string text(10, '\0');
  auto r = (*reader)->read(ByteOffset{50000}, {reinterpret_cast<std::byte*>(text.data()), text.size()});
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().code, EIO);
  EXPECT_NE(r.error().message().find("some-table"), std::string::npos);
  EXPECT_FALSE((*volume)->failure());  // reading stops nothing
  EXPECT_TRUE(test::read_all(**reader) == pattern(100000, 1));
}

// What a process that was killed left in the device's cache must not be built upon before it is durable.
TEST(OpeningAVolume, FlushesBeforeItIsUsed) {
  SparseDevice disk{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(disk, {})));
  disk.record();
  auto volume = Volume::open(disk);
  ASSERT_TRUE(ok(volume));
  const auto trace = disk.trace();
  ASSERT_EQ(trace.size(), 1u);
  EXPECT_TRUE(trace[0].flush);
}

TEST(ReadOnlyVolume, ReadsAndNeverWrites) {
  SparseDevice disk{SparseImage(128 * MiB)};
  ASSERT_TRUE(ok(Volume::format(disk, {})));
  {
    auto volume = Volume::open(disk);
    ASSERT_TRUE(ok(volume));
    ASSERT_TRUE(ok(test::write_file(**volume, "log", FileKind::log, pattern(100000, 1))));
    ASSERT_TRUE(ok(test::write_file(**volume, "table", FileKind::table, pattern(100000, 2))));
  }
  SparseDevice read_only{disk.image(), false};  // answers every write and flush with EROFS
  int changes = 0;
  auto device = hooked_device(read_only, [&](const DeviceEvent& event, Bytes) -> Result<void> {
    changes += event.kind != DeviceEvent::Kind::read;
    return {};
  });
  auto volume = Volume::open(*device);
  ASSERT_TRUE(ok(volume));
  EXPECT_FALSE((*volume)->writable());
  EXPECT_TRUE(contents_of(**volume, "log") == pattern(100000, 1));
  EXPECT_TRUE(contents_of(**volume, "table") == pattern(100000, 2));
  EXPECT_EQ((*volume)->create("x", FileKind::log).error().code, EROFS);
  EXPECT_EQ((*volume)->reopen("log").error().code, EROFS);
  EXPECT_EQ((*volume)->rename("log", "x").error().code, EROFS);
  EXPECT_EQ((*volume)->remove("log").error().code, EROFS);
  EXPECT_EQ((*volume)->commit().error().code, EROFS);
  EXPECT_FALSE((*volume)->failure());
  volume->reset();
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(Volume::format(read_only, {}).error().code, EROFS);
}

}  // namespace
}  // namespace lsmfs::fail_stop_test
