// The numbers of a mount as they go to who asks: whole, in parts, and whatever a stranger may send.
#include "fuse/control/stats_codec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "seed.h"

namespace lsmfs::test::stats_codec_test {
namespace {

Result<MountStats> through_messages(const MountStats& stats, int& parts) {
  MountStats got;
  std::uint32_t part = 0;
  parts = 0;
  do {
    StatsMessage request;
    request.version = kStatsVersion;
    request.part = part;
    LSMFS_ASSIGN(const StatsMessage answer, to_message(stats, request));
    LSMFS_TRY(take_part(answer, part, got));
    part = answer.part;
    ++parts;
  } while (part != 0);
  return got;
}

// Every number is another one.
MountStats full(std::uint64_t number, std::size_t kinds, std::size_t programs) {
  MountStats stats;
  const auto next = [&number] { return number++; };
  const auto fill = [&](HistogramCounts& histogram) {
    for (auto& bucket : histogram.buckets) bucket = next();
    histogram.sum_ns = next();
  };
  stats.mounted_ns = next();
  for (auto& cause : stats.layers.device.by_cause) cause = {next(), next(), next(), next()};
  fill(stats.layers.device.read);
  fill(stats.layers.device.flush);
  stats.layers.volume.table_free = ByteCount{next()};
  stats.layers.volume.files = next();
  stats.layers.store.stalls = next();
  stats.layers.store.failed = next();
  stats.layers.tree.inodes = next();
  stats.requests.other_programs = next();
  for (std::size_t i = 0; i < kinds; ++i) {
    stats.requests.kinds[i].count = next();
    fill(stats.requests.kinds[i].took);
    stats.requests.kinds[i].waited = next();
    stats.requests.kinds[i].bytes = next();
  }
  for (std::size_t i = 0; i < programs; ++i) stats.requests.programs.push_back({static_cast<std::uint32_t>(UINT32_MAX - i), next()});
  return stats;
}

void expect_equal(const MountStats& a, const MountStats& b) {
  EXPECT_EQ(a.mounted_ns, b.mounted_ns);
  for (std::size_t i = 0; i < kIoCauses.size(); ++i) {
    EXPECT_EQ(a.layers.device.by_cause[i].written_bytes, b.layers.device.by_cause[i].written_bytes);
    EXPECT_EQ(a.layers.device.by_cause[i].reads, b.layers.device.by_cause[i].reads);
  }
  EXPECT_EQ(a.layers.device.read, b.layers.device.read);
  EXPECT_EQ(a.layers.device.write, b.layers.device.write);
  EXPECT_EQ(a.layers.device.flush, b.layers.device.flush);
  EXPECT_EQ(a.layers.volume.table_free, b.layers.volume.table_free);
  EXPECT_EQ(a.layers.volume.files, b.layers.volume.files);
  EXPECT_EQ(a.layers.store.stalls, b.layers.store.stalls);
  EXPECT_EQ(a.layers.store.failed, b.layers.store.failed);
  EXPECT_EQ(a.layers.tree.inodes, b.layers.tree.inodes);
  EXPECT_EQ(a.requests.other_programs, b.requests.other_programs);
  for (std::size_t i = 0; i < RequestStats::kKinds; ++i) {
    EXPECT_EQ(a.requests.kinds[i].count, b.requests.kinds[i].count);
    EXPECT_EQ(a.requests.kinds[i].took, b.requests.kinds[i].took) << i;
    EXPECT_EQ(a.requests.kinds[i].waited, b.requests.kinds[i].waited);
    EXPECT_EQ(a.requests.kinds[i].bytes, b.requests.kinds[i].bytes);
  }
  ASSERT_EQ(a.requests.programs.size(), b.requests.programs.size());
  for (std::size_t i = 0; i < a.requests.programs.size(); ++i) {
    EXPECT_EQ(a.requests.programs[i].id, b.requests.programs[i].id);
    EXPECT_EQ(a.requests.programs[i].requests, b.requests.programs[i].requests);
  }
}

TEST(StatsCodec, GivesWhatItTook) {
  int parts = 0;
  for (const auto& stats : {MountStats{}, full(1, 20, 5)}) {
    const auto got = through_messages(stats, parts);
    ASSERT_TRUE(got);
    expect_equal(*got, stats);
    EXPECT_LE(parts, 3);
  }
}

TEST(StatsCodec, TakesTheLargestNumbersInSeveralParts) {
  const MountStats most = full(UINT64_MAX - 100'000, RequestStats::kKinds, RequestStats::kProgramsMax);
  int parts = 0;
  const auto got = through_messages(most, parts);
  ASSERT_TRUE(got);
  expect_equal(*got, most);
  EXPECT_GT(parts, 3);
}

TEST(StatsCodec, SaysNothingToAnotherVersionAndTakesNothingFromIt) {
  StatsMessage request;
  request.version = kStatsVersion + 1;
  const auto answer = to_message(full(1, 5, 5), request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->version, kStatsVersion);
  EXPECT_EQ(answer->size, 0u);

  StatsMessage theirs;
  theirs.version = kStatsVersion + 1;
  MountStats stats;
  const auto taken = take_part(theirs, 0, stats);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, EPROTO);
  EXPECT_NE(taken.error().context.find("version 2"), std::string::npos) << taken.error().context;
}

TEST(StatsCodec, RefusesAPartThatIsNotThere) {
  StatsMessage request;
  request.version = kStatsVersion;
  request.part = RequestStats::kKinds + 1;
  EXPECT_FALSE(to_message(MountStats{}, request));
}

TEST(StatsCodec, ComesToAnEndWhateverIsSent) {
  std::mt19937_64 random(drawn_seed());
  StatsMessage sound;
  sound.version = kStatsVersion;
  const MountStats stats = full(1 << 20, 30, 9);
  for (int i = 0; i < 3000; ++i) {
    const std::uint32_t part = static_cast<std::uint32_t>(random() % 3);
    sound.part = part;
    StatsMessage message = *to_message(stats, sound);
    // Of the length now and then, mostly of what it says.
    if (random() % 4 == 0) message.size = static_cast<std::uint32_t>(random() % (2 * sizeof message.bytes));
    if (random() % 8 == 0) message.part = static_cast<std::uint32_t>(random());
    for (auto changes = random() % 8; changes > 0; --changes) message.bytes[random() % sizeof message.bytes] = static_cast<char>(random());
    MountStats got;
    if (const auto taken = take_part(message, part, got); taken) {
      EXPECT_TRUE(message.part == 0 || (message.part > part && message.part <= RequestStats::kKinds)) << "or it would be asked for ever";
    } else {
      EXPECT_EQ(taken.error().code, EPROTO);
    }
  }
}

TEST(Stats, BetweenTwoMomentsAreWhatWasCountedThen) {
  MountStats before = full(1000, 3, 0), now = before;
  now.requests.kinds[2].took.add(5000);
  now.requests.kinds[2].waited += 1;
  now.layers.device.by_cause[4].written_bytes += 4096;
  now.layers.store.debt_bytes = 77;
  before.requests.programs = {{1, 10}, {2, 20}, {3, 5}};
  now.requests.programs = {{2, 50}, {1, 10}, {4, 7}, {3, 2}};
  const MountStats between = since(now, before);
  EXPECT_EQ(between.requests.kinds[2].took.count(), 1u);
  EXPECT_EQ(between.requests.kinds[2].took.sum_ns, 5000u);
  EXPECT_EQ(between.requests.kinds[2].waited, 1u);
  EXPECT_EQ(between.requests.kinds[1].took.count(), 0u);
  EXPECT_EQ(between.layers.device.sum().written_bytes, 4096u);
  EXPECT_EQ(between.layers.store.debt_bytes, 77u) << "is as of now";
  EXPECT_EQ(between.layers.volume.files, now.layers.volume.files);
  ASSERT_EQ(between.requests.programs.size(), 3u);
  EXPECT_EQ(between.requests.programs[0].requests, 30u);
  EXPECT_EQ(between.requests.programs[1].id, 4u);
  EXPECT_EQ(between.requests.programs[2].requests, 2u) << "began anew";
}

}  // namespace
}  // namespace lsmfs::test::stats_codec_test
