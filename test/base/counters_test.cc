#include "lsmfs/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <thread>
#include <vector>

#include "seed.h"

namespace lsmfs::test::counters_test {
namespace {

TEST(Histogram, EachBucketHoldsWhatLiesBetweenItsBounds) {
  for (std::size_t i = 0; i < HistogramCounts::kBuckets; ++i) {
    const std::uint64_t lower = HistogramCounts::lower_ns(i);
    EXPECT_EQ(HistogramCounts::bucket_of(lower), i);
    if (i > 0) {
      EXPECT_EQ(HistogramCounts::bucket_of(lower - 1), i - 1);
    }
    if (i == 0 || i + 1 == HistogramCounts::kBuckets) continue;
    EXPECT_LE(4 * (HistogramCounts::lower_ns(i + 1) - lower), lower) << "no wider than a quarter of where it begins";
  }
  EXPECT_EQ(HistogramCounts::lower_ns(1), HistogramCounts::kLeastNs);
  EXPECT_EQ(HistogramCounts::lower_ns(HistogramCounts::kBuckets - 1), HistogramCounts::kMostNs);
  EXPECT_EQ(HistogramCounts::bucket_of(UINT64_MAX), HistogramCounts::kBuckets - 1);
}

TEST(Histogram, PercentilesAreThoseOfASortedListAtMostAQuarterTooHigh) {
  std::mt19937_64 random(drawn_seed());
  std::lognormal_distribution<double> spread(11, 3);
  HistogramCounts counts;
  std::vector<std::uint64_t> all;
  for (int i = 0; i < 20000; ++i) {
    all.push_back(std::min<std::uint64_t>(static_cast<std::uint64_t>(spread(random)), HistogramCounts::kMostNs - 1));
    counts.add(all.back());
  }
  std::ranges::sort(all);
  EXPECT_EQ(counts.count(), all.size());
  for (const double percent : {0.1, 10., 50., 90., 99., 99.9, 100.}) {
    const auto rank = static_cast<std::size_t>(std::ceil(static_cast<double>(all.size()) * percent / 100));
    const std::uint64_t exact = all[rank - 1], told = counts.percentile_ns(percent);
    EXPECT_GT(told, exact) << percent;
    EXPECT_LE(told, std::max(exact + exact / 4 + 1, HistogramCounts::kLeastNs)) << percent;
  }
}

TEST(Histogram, OfNothingHasNoPercentileAndOfWhatTakesTooLongTheMost) {
  HistogramCounts counts;
  EXPECT_EQ(counts.percentile_ns(99), 0u);
  counts.add(UINT64_MAX / 2);
  EXPECT_EQ(counts.percentile_ns(50), HistogramCounts::kMostNs);
}

TEST(Histogram, SumsAreThoseOfAllThatWasAdded) {
  HistogramCounts first, second, both;
  for (std::uint64_t ns = 1; ns < 1'000'000; ns = ns * 3 + 1) {
    (ns % 2 ? first : second).add(ns);
    both.add(ns);
  }
  first += second;
  EXPECT_EQ(first, both);
}

TEST(Counters, OfManyThreadsLoseNothing) {
  Counter counter;
  Histogram histogram;
  std::vector<std::thread> threads;
  for (int t = 0; t < 20; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        counter.add(2);
        histogram.add(5000);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40000u);
  EXPECT_EQ(histogram.counts().count(), 20000u);
  EXPECT_EQ(histogram.counts().sum_ns, 20000u * 5000);
}

}  // namespace
}  // namespace lsmfs::test::counters_test
