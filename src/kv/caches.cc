#include "kv/caches.h"

#include <algorithm>
#include <bit>

#if __has_include(<rocksdb/advanced_cache.h>)
#include <rocksdb/advanced_cache.h>  // where rocksdb::Cache lives from 8.x on
#endif

namespace lsmfs::kv {

namespace {

// Contents that have been read lie in the page cache, too; of names the kernel forgets many. A fourth holds the rows of
// some 300,000 files at the default size.
constexpr std::uint64_t names_share(std::uint64_t bytes) { return bytes / 4; }

// A shard that cannot hold the filters that fall to it reads one from the device for each lookup, and one has up to 1.2 MB.
constexpr std::uint64_t kShardMin = 16 * MiB;
constexpr int kShardBitsMax = 4;  // few threads wait for each other

std::shared_ptr<rocksdb::Cache> make_cache(std::uint64_t bytes) {
  rocksdb::LRUCacheOptions o;
  o.capacity = bytes;
  o.num_shard_bits = std::clamp(static_cast<int>(std::bit_width(bytes / kShardMin)) - 1, 0, kShardBitsMax);
  o.strict_capacity_limit = false;  // true turns a full cache into failed reads
  o.high_pri_pool_ratio = 0.5;      // index and filters outlive a scan
  return rocksdb::NewLRUCache(o);
}

}  // namespace

Caches::Caches(std::uint64_t bytes) : names_(make_cache(names_share(bytes))), blocks_(make_cache(bytes - names_share(bytes))) {}

std::uint64_t Caches::usage() const { return names_->GetUsage() + blocks_->GetUsage(); }

void Caches::set_capacity(std::uint64_t bytes) {
  names_->SetCapacity(names_share(bytes));
  blocks_->SetCapacity(bytes - names_share(bytes));
}

void Caches::empty() {
  names_->EraseUnRefEntries();
  blocks_->EraseUnRefEntries();
}

}  // namespace lsmfs::kv
