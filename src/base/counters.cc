#include "lsmfs/counters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lsmfs {

std::size_t next_stripe() {
  static std::atomic<std::size_t> threads{0};
  return threads.fetch_add(1, std::memory_order_relaxed) % kStripes;
}

std::uint64_t HistogramCounts::count() const { return std::accumulate(buckets.begin(), buckets.end(), std::uint64_t{0}); }

std::uint64_t HistogramCounts::count_below(std::size_t bucket) const {
  return std::accumulate(buckets.begin(), buckets.begin() + static_cast<std::ptrdiff_t>(bucket), std::uint64_t{0});
}

std::uint64_t HistogramCounts::percentile_ns(double percent) const {
  const std::uint64_t all = count();
  if (all == 0) return 0;
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(std::ceil(static_cast<double>(all) * percent / 100)), 1);
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i + 1 < kBuckets; ++i) {
    seen += buckets[i];
    if (seen >= rank) return lower_ns(i + 1);
  }
  return kMostNs;
}

HistogramCounts& HistogramCounts::operator+=(const HistogramCounts& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) buckets[i] += other.buckets[i];
  sum_ns += other.sum_ns;
  return *this;
}

HistogramCounts Histogram::counts() const {
  HistogramCounts counts;
  for (std::size_t i = 0; i < HistogramCounts::kBuckets; ++i) counts.buckets[i] = buckets_[i].load(std::memory_order_relaxed);
  counts.sum_ns = sum_ns_.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace lsmfs
