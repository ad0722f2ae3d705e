// kv/levels: where the tables of a family are.
#pragma once

#include <rocksdb/metadata.h>

#include <cstdint>

namespace lsmfs::kv {

// The last level that has tables, over which all others lie. 0: none do, or all of them are in level 0, where they lie over each other.
inline int last_level(const rocksdb::ColumnFamilyMetaData& facts) {
  int last = 0;
  for (const auto& level : facts.levels) {
    if (!level.files.empty()) last = level.level;
  }
  return last;
}

// The level that level 0 is merged into, or soon may be. `base` is the one that RocksDB names: empty while the largest level is too
// large for the next one to be it, `base_most` at most. Where the largest is not the last one, merges alone make it smaller, and
// level 0 goes to the next one again (VersionStorageInfo::CalculateBaseBytes). So that one is it while the largest is near.
int level0_goes_to(const rocksdb::ColumnFamilyMetaData& facts, int base, std::uint64_t base_most, int fanout);

}  // namespace lsmfs::kv
