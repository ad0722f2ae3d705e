// counters: how often things happened and how long they took, counted by many threads at next to no cost.
//
// A Counter and a Histogram only grow. Each has its memory in several stripes, and a thread adds to one of them: so threads on different
// processors do not take a cache line from each other. What they are not: exact at a moment. Who reads while others add sees some of that.
//
// Threads: all functions, from any thread. HistogramCounts is a plain value.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace lsmfs {

inline constexpr std::size_t kStripes = 16;
std::size_t next_stripe();
// This thread's, below kStripes.
inline std::size_t stripe_of_this_thread() {
  static constinit thread_local std::size_t stripe = kStripes;
  if (stripe == kStripes) stripe = next_stripe();
  return stripe;
}

class Counter {
 public:
  void add(std::uint64_t n = 1) { stripes_[stripe_of_this_thread()].value.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const {
    std::uint64_t sum = 0;
    for (const Stripe& stripe : stripes_) sum += stripe.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Stripe {
    std::atomic<std::uint64_t> value{0};
  };
  std::array<Stripe, kStripes> stripes_;
};

// How many took how long, in buckets: one below kLeastNs, four for each doubling from there to kMostNs, and one for all above.
// A bucket is a quarter of its lower bound wide, or less.
struct HistogramCounts {
  static constexpr std::uint64_t kLeastNs = 1 << 10, kMostNs = std::uint64_t{1} << 37;  // 1.02 us, 137 s
  static constexpr std::size_t kSteps = 4;                                               // buckets in each doubling
  static constexpr std::size_t kBuckets = 2 + kSteps * (37 - 10);

  static constexpr std::size_t bucket_of(std::uint64_t ns) {
    if (ns < kLeastNs) return 0;
    if (ns >= kMostNs) return kBuckets - 1;
    const unsigned power = static_cast<unsigned>(std::bit_width(ns)) - 1;
    return 1 + (power - 10) * kSteps + (ns >> (power - 2) & (kSteps - 1));
  }
  // What lies in a bucket takes as long as this or longer, and less than the bound of the next one.
  static constexpr std::uint64_t lower_ns(std::size_t bucket) {
    if (bucket == 0) return 0;
    const std::size_t step = bucket - 1;
    return (kSteps + step % kSteps) << (step / kSteps + 10 - 2);
  }

  std::array<std::uint64_t, kBuckets> buckets{};
  std::uint64_t sum_ns = 0;

  std::uint64_t count() const;
  // How many took less than a bucket's lower bound.
  std::uint64_t count_below(std::size_t bucket) const;
  // So many of a hundred took no longer than this, which is the upper bound of a bucket: at most a quarter too much. 0: there are none.
  // Of more than kMostNs it is that.
  std::uint64_t percentile_ns(double percent) const;
  void add(std::uint64_t ns) {
    ++buckets[bucket_of(ns)];
    sum_ns += ns;
  }
  HistogramCounts& operator+=(const HistogramCounts& other);
  friend bool operator==(const HistogramCounts&, const HistogramCounts&) = default;
};

// One stripe's worth of it: as the counts, for several threads.
class Histogram {
 public:
  // `times`: it stands for so many that took as long.
  void add(std::uint64_t ns, std::uint64_t times = 1) {
    buckets_[HistogramCounts::bucket_of(ns)].fetch_add(times, std::memory_order_relaxed);
    sum_ns_.fetch_add(ns * times, std::memory_order_relaxed);
  }
  HistogramCounts counts() const;

 private:
  std::array<std::atomic<std::uint64_t>, HistogramCounts::kBuckets> buckets_{};
  std::atomic<std::uint64_t> sum_ns_{0};
};

}  // namespace lsmfs
