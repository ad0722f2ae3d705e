// kv/cache_ticks: whether those who serve requests find blocks of tables in the cache. RocksDB says that only by its Statistics, of which
// all else is left alone: they count hundreds of things, some of them by a clock.
//
// What it is not: a count of what compactions, walks ahead and scrubs find. A block that a request with Wait::no has not found is asked
// for again by the worker that waits for it, and counted as missing then.
#pragma once

#include <rocksdb/statistics.h>

#include "lsmfs/counters.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

class CacheTicks final : public rocksdb::Statistics {
 public:
  CacheTicks() { set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers); }

  CacheCounts data() const { return data_.counts(); }
  CacheCounts indexes() const { return indexes_.counts(); }

  const char* Name() const override { return "lsmfs-cache-ticks"; }
  void recordTick(std::uint32_t ticker, std::uint64_t count) override {
    switch (ticker) {
      case rocksdb::BLOCK_CACHE_DATA_HIT: return hit(data_, count);
      case rocksdb::BLOCK_CACHE_DATA_MISS: return miss(data_, count);
      case rocksdb::BLOCK_CACHE_INDEX_HIT:
      case rocksdb::BLOCK_CACHE_FILTER_HIT: return hit(indexes_, count);
      case rocksdb::BLOCK_CACHE_INDEX_MISS:
      case rocksdb::BLOCK_CACHE_FILTER_MISS: return miss(indexes_, count);
      default: return;
    }
  }
  void recordInHistogram(std::uint32_t, std::uint64_t) override {}
  void measureTime(std::uint32_t, std::uint64_t) override {}
  bool HistEnabledForType(std::uint32_t) const override { return false; }
  std::uint64_t getTickerCount(std::uint32_t) const override { return 0; }
  void histogramData(std::uint32_t, rocksdb::HistogramData* const) const override {}
  void setTickerCount(std::uint32_t, std::uint64_t) override {}
  std::uint64_t getAndResetTickerCount(std::uint32_t) override { return 0; }

 private:
  struct Lookups {
    Counter hits, misses;
    CacheCounts counts() const { return {hits.value(), misses.value()}; }
  };
  static void hit(Lookups& lookups, std::uint64_t count);
  static void miss(Lookups& lookups, std::uint64_t count);

  Lookups data_, indexes_;
};

}  // namespace lsmfs::kv
