#include "simdisk/disk.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "clock.h"
#include "image.h"

namespace lsmfs::simdisk::disk_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A disk with a clock that stands still until it is moved. On the SSD, 4 KiB elsewhere take 102.4 us.
class SimdiskDisk : public testing::Test {
 protected:
  static constexpr Nanos kPlace = Nanos(102'400);

  std::shared_ptr<Disk> disk(Profile profile, Nanos path = {}) { return disk(backing_, profile, path); }
  std::shared_ptr<Disk> disk(Backing& backing, Profile profile, Nanos path = {}) {
    const auto end = [this](const Disk* disk) {
      workers_.drain();
      delete disk;
    };
    return {new Disk(backing, workers_, {.profile = profile, .path = path, .clock = &clock_}), end};
  }

  // Its answer appends `name` to answered_.
  void submit(Disk& disk, Kind kind, std::uint64_t offset, std::uint64_t length, const std::string& name,
              std::byte fill = {}) {
    auto job = std::make_shared<Job>();
    job->request = {kind, ByteOffset{offset}, ByteCount{length}};
    job->arrival = disk.now();
    if (job->request.transfers()) {
      job->buffer = buffers_.take();
      job->data = job->buffer->bytes().first(length);
      std::fill(job->data.begin(), job->data.end(), fill);
    }
    job->answer = [this, name](Job& done, int error) {
      const std::lock_guard lock(mutex_);
      answered_ += name;
      if (error != 0) answered_ += "!";
      if (done.request.kind == Kind::read && error == 0) last_read_ = done.data[0];
    };
    disk.submit(std::move(job));
  }

  // Goes on as the server does, to the next moment at which something happens; false: there is none.
  bool step(Disk& disk) {
    const auto when = disk.next();
    if (!when) return false;
    go_to(std::max(now(), *when));
    disk.finish_due();
    return true;
  }

  Nanos now() { return clock_.now().time_since_epoch(); }
  void go_to(Nanos moment) { clock_.advance(moment - now()); }

  nlohmann::json stats(Disk& disk) { return nlohmann::json::parse(disk.stats()); }

  std::string answered() {
    const std::lock_guard lock(mutex_);
    return answered_;
  }

  test::SteppedClock clock_;
  Backing backing_{image(64 * MiB)};
  Buffers buffers_{MiB, 8};
  std::mutex mutex_;
  std::string answered_;
  std::byte last_read_{};
  Workers workers_{3, "test", clock_};  // before what they use goes, they end
};

TEST_F(SimdiskDisk, AnswersWhenTheTimeHasCome) {
  const auto d = disk(Profile::ssd_sata);
  submit(*d, Kind::read, MiB, 4096, "a");
  const auto when = d->next();
  ASSERT_TRUE(when);
  EXPECT_EQ(*when, now() + kPlace);
  go_to(*when - Nanos(1));
  d->finish_due();
  EXPECT_EQ(answered(), "");
  go_to(*when);
  d->finish_due();
  EXPECT_EQ(answered(), "a");
  EXPECT_EQ(d->next(), std::nullopt);
}

TEST_F(SimdiskDisk, ServesOneAfterTheOther) {
  const auto d = disk(Profile::ssd_sata);
  const Nanos begin = now();
  for (int i = 0; i < 5; ++i) submit(*d, Kind::read, static_cast<std::uint64_t>(10 - 2 * i) * MiB, 4096, std::to_string(i));
  while (step(*d)) {
  }
  EXPECT_EQ(answered(), "01234");
  EXPECT_EQ(now() - begin, 5 * kPlace);
  EXPECT_DOUBLE_EQ(stats(*d)["busy_seconds"].get<double>(), seconds_of(5 * kPlace));
}

TEST_F(SimdiskDisk, LostTimeIsMadeUpForWhileRequestsWait) {
  const auto d = disk(Profile::ssd_sata);
  const Nanos begin = now();
  for (int i = 0; i < 3; ++i) submit(*d, Kind::read, static_cast<std::uint64_t>(10 - 2 * i) * MiB, 4096, "x");
  d->next();
  clock_.advance(kPlace + microseconds(70));  // the host was late
  d->finish_due();
  EXPECT_EQ(d->next(), begin + 2 * kPlace);
  while (step(*d)) {
  }
  EXPECT_EQ(now() - begin, 3 * kPlace);
  EXPECT_NEAR(stats(*d)["late_seconds"].get<double>(), 70e-6, 1e-9);
}

TEST_F(SimdiskDisk, ThePathCountsOnlyWhenTheDiskWasIdle) {
  const auto d = disk(Profile::ssd_sata, microseconds(30));
  const Nanos begin = now();
  submit(*d, Kind::read, 10 * MiB, 4096, "a");
  submit(*d, Kind::read, 5 * MiB, 4096, "b");
  while (step(*d)) {
  }
  EXPECT_EQ(now() - begin, 2 * kPlace - microseconds(30));
  clock_.advance(microseconds(10));
  const Nanos end = now() - microseconds(10);
  submit(*d, Kind::read, 20 * MiB, 4096, "c");
  EXPECT_EQ(d->next(), end + kPlace) << "never before the end of the last";
}

TEST_F(SimdiskDisk, ItsOwnerIsFreeWhileDataIsMoved) {
  const auto inner = image(MiB);
  std::thread::id mover;
  const auto note = [&](const DeviceEvent&, Bytes) -> Result<void> {
    mover = std::this_thread::get_id();
    return {};
  };
  Backing backing(hooked_device(*inner, note));
  const auto d = disk(backing, Profile::ssd_sata);
  submit(*d, Kind::read, 8192, 4096, "a");
  while (step(*d)) {
  }
  EXPECT_EQ(answered(), "a");
  EXPECT_NE(mover, std::thread::id());
  EXPECT_NE(mover, std::this_thread::get_id()) << "who came meanwhile was seen late";
}

TEST_F(SimdiskDisk, PiecesOfOneReadStayOneRun) {
  const auto d = disk(Profile::hdd);
  submit(*d, Kind::read, 8 * MiB, MiB, "0");
  submit(*d, Kind::write, 40 * MiB, 4096, "w");
  submit(*d, Kind::read, 10 * MiB, MiB, "2");
  submit(*d, Kind::read, 9 * MiB, MiB, "1");
  while (step(*d)) {
  }
  EXPECT_EQ(answered(), "012w");
  EXPECT_EQ(stats(*d)["discontinuous_reads"], 0);
}

TEST_F(SimdiskDisk, AFlushWaitsForWhatCameBefore) {
  const auto d = disk(Profile::hdd);
  submit(*d, Kind::write, 30 * MiB, 4096, "a");
  submit(*d, Kind::write, 10 * MiB, 4096, "b");
  submit(*d, Kind::flush, 0, 0, "f");
  while (step(*d)) {
  }
  EXPECT_EQ(answered(), "abf");
}

TEST_F(SimdiskDisk, DataIsThatOfTheFile) {
  for (const Profile profile : {Profile::hdd, Profile::none}) {
    answered_.clear();
    const auto d = disk(profile);
    const auto finish = [&] {
      while (step(*d)) {
      }
      workers_.drain();
    };
    submit(*d, Kind::write, MiB, 4096, "w", std::byte{42});
    finish();
    submit(*d, Kind::read, MiB, 4096, "r");
    finish();
    EXPECT_EQ(last_read_, std::byte{42});
    submit(*d, Kind::discard, MiB, 4096, "d");
    finish();
    submit(*d, Kind::read, MiB, 4096, "r");
    finish();
    EXPECT_EQ(last_read_, std::byte{0});
    EXPECT_EQ(answered(), "wrdr");
  }
}

TEST_F(SimdiskDisk, AnErrorOfTheFileIsToldInTime) {
  const auto d = disk(Profile::hdd);
  submit(*d, Kind::read, 64 * MiB, 4096, "a");
  const auto when = d->next();
  d->finish_due();
  EXPECT_EQ(answered(), "");
  go_to(*when);
  d->finish_due();
  EXPECT_EQ(answered(), "a!");
}

TEST_F(SimdiskDisk, AnotherProfileIsForWhatHasNotBegun) {
  const auto d = disk(Profile::hdd);
  submit(*d, Kind::read, 30 * MiB, 4096, "a");
  submit(*d, Kind::read, 10 * MiB, 4096, "b");
  const auto first = d->next();
  ASSERT_TRUE(first);
  EXPECT_GT(*first, now() + milliseconds(5));
  d->set_profile(Profile::none);
  EXPECT_TRUE(step(*d));
  EXPECT_EQ(answered(), "a");
  EXPECT_EQ(d->next(), *first) << "the second takes no time";
  d->finish_due();
  EXPECT_EQ(answered(), "ab");
  d->set_profile(Profile::ssd_sata);
  go_to(*first + milliseconds(1));
  submit(*d, Kind::read, 40 * MiB, 4096, "c");
  EXPECT_EQ(d->next(), now() + kPlace);
  EXPECT_EQ(stats(*d)["profile"], "ssd-sata");
}

TEST_F(SimdiskDisk, CountsAndTracesWhatItDoes) {
  const auto d = disk(Profile::ssd_sata);
  d->set_trace(true);
  submit(*d, Kind::read, 10 * MiB, 8192, "");
  while (step(*d)) {
  }
  clock_.advance(microseconds(1000));
  submit(*d, Kind::write, 10 * MiB + 8192, 4096, "");
  submit(*d, Kind::read, 10 * MiB + 8192, 4096, "");
  submit(*d, Kind::read, 10 * MiB, 4096, "");
  submit(*d, Kind::flush, 0, 0, "");
  submit(*d, Kind::discard, 0, MiB, "");
  while (step(*d)) {
  }
  const auto s = stats(*d);
  EXPECT_EQ(s["reads"], 3);
  EXPECT_EQ(s["read_bytes"], 16384);
  EXPECT_EQ(s["writes"], 1);
  EXPECT_EQ(s["written_bytes"], 4096);
  EXPECT_EQ(s["flushes"], 1);
  EXPECT_EQ(s["discards"], 1);
  EXPECT_EQ(s["discarded_bytes"], MiB);
  EXPECT_EQ(s["discontinuous_reads"], 1) << "the write in between does not count";
  const std::string trace = d->trace()->read(0, 10000);
  EXPECT_EQ(std::count(trace.begin(), trace.end(), '\n'), 6);
  EXPECT_EQ(trace.substr(0, trace.find('\n')), "0.000000000 R 10485760 8192 0.000123944");
  EXPECT_NE(trace.find("\n0.001123944 W 10493952 4096 "), std::string::npos) << trace;
}

TEST_F(SimdiskDisk, WithoutTimesAllAreAnsweredByTheWorkers) {
  const auto d = disk(Profile::none);
  for (std::uint64_t i = 0; i < 200; ++i) submit(*d, i % 2 ? Kind::read : Kind::write, i * 4096, 4096, "x");
  EXPECT_EQ(d->next(), std::nullopt);
  workers_.drain();
  EXPECT_EQ(answered().size(), 200U);
}

TEST_F(SimdiskDisk, WhatIsGivenUpIsAnsweredWithAnError) {
  const auto d = disk(Profile::hdd);
  submit(*d, Kind::read, 30 * MiB, 4096, "a");
  d->next();
  submit(*d, Kind::read, 10 * MiB, 4096, "b");
  workers_.drain();
  d->give_up();
  EXPECT_EQ(answered(), "a!b!");
  EXPECT_EQ(d->next(), std::nullopt);
}

}  // namespace
}  // namespace lsmfs::simdisk::disk_test
