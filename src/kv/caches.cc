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

// The part of a cache for what was asked for again, and for index and filters; the rest is for what was read once. Names that
// were read once make place first. Of contents that is the wrong way round: what was read ahead has not been asked for yet, and
// what has been is not asked for again. In one queue the one lies behind the other.
constexpr double again_share(Family family) { return family == Family::names ? 0.5 : 0; }

std::shared_ptr<rocksdb::Cache> make_cache(Family family, std::uint64_t bytes) {
  rocksdb::LRUCacheOptions o;
  o.capacity = bytes;
  o.num_shard_bits = std::clamp(static_cast<int>(std::bit_width(bytes / kShardMin)) - 1, 0, kShardBitsMax);
  o.strict_capacity_limit = false;  // true turns a full cache into failed reads
  o.high_pri_pool_ratio = again_share(family);
  return rocksdb::NewLRUCache(o);
}

}  // namespace

Caches::Caches(std::uint64_t bytes)
    : names_(make_cache(Family::names, names_share(bytes))), blocks_(make_cache(Family::blocks, bytes - names_share(bytes))) {}

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
