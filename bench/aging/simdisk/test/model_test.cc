#include "simdisk/model.h"

#include <gtest/gtest.h>

#include <random>

namespace lsmfs::simdisk::model_test {
namespace {

constexpr std::uint64_t kDisk = 500'000'000'000;

Request read(std::uint64_t offset, std::uint64_t length) {
  return {Kind::read, ByteOffset{offset}, ByteCount{length}};
}
Request write(std::uint64_t offset, std::uint64_t length) {
  return {Kind::write, ByteOffset{offset}, ByteCount{length}};
}

// Bytes a second of reads of so many bytes each, at random places of the whole disk, in pieces as a kernel makes them.
double bandwidth(Profile profile, std::uint64_t size) {
  constexpr int kReads = 4000;
  constexpr std::uint64_t kPiece = 512 * KiB;
  ServiceModel model(profile);
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::uint64_t> place(0, kDisk / size - 1);
  Nanos time{};
  for (int i = 0; i < kReads; ++i) {
    const std::uint64_t begin = place(random) * size;
    for (std::uint64_t done = 0; done < size; done += kPiece) {
      time += model.service(read(begin + done, std::min(kPiece, size - done)));
    }
  }
  return kReads * static_cast<double>(size) / seconds_of(time);
}

struct Published {
  std::uint64_t size;
  double ssd, hdd;  // MB/s
};
constexpr std::array kPublished{Published{4 * KiB, 40, 0.3}, Published{64 * KiB, 154, 5.6}, Published{1 * MiB, 284, 48},
                                Published{4 * MiB, 415, 88}, Published{16 * MiB, 519, 112}};

TEST(SimdiskModel, RandomReadsOnTheHardDiskAreAsFastAsMeasured) {
  for (const auto& row : kPublished) {
    EXPECT_NEAR(bandwidth(Profile::hdd, row.size) / 1e6 / row.hdd, 1, 0.15) << row.size;
  }
}

TEST(SimdiskModel, RandomReadsOnTheSsdAreAsFastAsMeasured) {
  for (const auto& row : kPublished) {
    EXPECT_NEAR(bandwidth(Profile::ssd_sata, row.size) / 1e6 / row.ssd, 1, 0.01) << row.size;
  }
}

TEST(SimdiskModel, ARunCostsTheSameHoweverItIsCut) {
  for (const Profile profile : {Profile::hdd, Profile::ssd_sata}) {
    ServiceModel whole(profile), cut(profile);
    const Nanos expected = whole.service(read(kDisk / 2, 3 * MiB));
    Nanos sum{};
    for (std::uint64_t done = 0; done < 3 * MiB;) {
      const std::uint64_t piece = std::min<std::uint64_t>(done % (64 * KiB) == 0 ? 4096 : 60 * KiB, 3 * MiB - done);
      sum += cut.service(read(kDisk / 2 + done, piece));
      done += piece;
    }
    EXPECT_NEAR(static_cast<double>(sum.count()), static_cast<double>(expected.count()), 100) << name_of(profile);
  }
}

TEST(SimdiskModel, TheHardDiskOnlyTransfersWhatFollows) {
  ServiceModel model(Profile::hdd);
  model.service(read(kDisk / 2, MiB));
  EXPECT_EQ(model.service(write(kDisk / 2 + MiB, 1'227'000)), std::chrono::milliseconds(10));
  EXPECT_EQ(model.position().v, kDisk / 2 + MiB + 1'227'000);
}

TEST(SimdiskModel, TheHardDiskLetsAShortGapPassByAndSeeksOverALongOne) {
  const auto cost_after = [](std::uint64_t position, std::uint64_t offset) {
    ServiceModel model(Profile::hdd);
    model.service(read(position - 4096, 4096));
    return seconds_of(model.service(read(offset, 4096)));
  };
  const std::uint64_t here = kDisk / 2;
  const double transfer = 4096 / 122.7e6;
  EXPECT_NEAR(cost_after(here, here + 122'700), 1e-3 + transfer, 1e-6);
  const double least = 1e-3 + 0.5 / 120 + transfer;  // a seek, however short, and half a rotation
  EXPECT_GT(cost_after(here, here - 4096), least);
  EXPECT_LT(cost_after(here, here - 4096), 1.01 * least);
  EXPECT_LT(cost_after(here, here + GiB), cost_after(here, here + 100 * GiB));
  EXPECT_DOUBLE_EQ(cost_after(here, here + GiB), cost_after(here, here - GiB));
  double last = 0;
  for (std::uint64_t gap = 4096; gap < kDisk / 4; gap *= 2) {
    const double cost = cost_after(here, here + gap);
    EXPECT_GE(cost, last) << gap;
    EXPECT_LT(cost, 0.02) << gap;
    last = cost;
  }
}

TEST(SimdiskModel, AnotherPlaceStartsANewRunOnTheSsd) {
  ServiceModel model(Profile::ssd_sata);
  const Nanos first = model.service(read(GiB, 4096));
  EXPECT_EQ(first, std::chrono::nanoseconds(102'400));
  EXPECT_LT(model.service(read(GiB + 4096, 4096)), first / 4);
  EXPECT_EQ(model.service(read(2 * GiB, 4096)), first);
  EXPECT_EQ(model.service(read(2 * GiB, 4096)), first) << "again, but it does not begin where the last one ended";
}

TEST(SimdiskModel, TheCloudVolumeCountsRequestsAndBytes) {
  ServiceModel model(Profile::cloud_volume);
  EXPECT_NEAR(seconds_of(model.service(read(0, 4096))), 1.0 / 3000, 1e-9);
  EXPECT_NEAR(seconds_of(model.service(read(4096, 4096))), 1.0 / 3000, 1e-9);
  EXPECT_NEAR(seconds_of(model.service(write(GiB, MiB))), MiB / 125e6, 1e-9);
}

TEST(SimdiskModel, NoneTakesNoTime) {
  ServiceModel model(Profile::none);
  EXPECT_EQ(model.service(read(GiB, MiB)), Nanos(0));
  EXPECT_EQ(model.position().v, GiB + MiB);
}

TEST(SimdiskModel, FlushesAndDiscardsCostNothingAndMoveNothing) {
  for (const Profile profile : kProfiles) {
    ServiceModel model(profile);
    model.service(read(GiB, 4096));
    EXPECT_EQ(model.service({Kind::flush, {}, {}}), Nanos(0));
    EXPECT_EQ(model.service({Kind::discard, ByteOffset{0}, ByteCount{GiB}}), Nanos(0));
    EXPECT_EQ(model.position().v, GiB + 4096);
  }
}

TEST(SimdiskModel, AnotherProfileKeepsThePosition) {
  ServiceModel model(Profile::none);
  model.service(read(GiB, 4096));
  model.set_profile(Profile::hdd);
  EXPECT_LT(model.service(read(GiB + 4096, 4096)), std::chrono::milliseconds(1));
}

TEST(SimdiskModel, ProfilesHaveNamesThatCanBeRead) {
  for (const Profile profile : kProfiles) EXPECT_EQ(profile_of(name_of(profile)), profile);
  EXPECT_EQ(profile_of("floppy"), std::nullopt);
  EXPECT_EQ(profile_of(""), std::nullopt);
  EXPECT_EQ(profile_names(), "hdd, ssd-sata, cloud-volume, none");
}

}  // namespace
}  // namespace lsmfs::simdisk::model_test
