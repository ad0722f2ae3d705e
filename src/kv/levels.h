// kv/levels: where the tables of a family are.
#pragma once

#include <rocksdb/metadata.h>

namespace lsmfs::kv {

// The last level that has tables, over which all others lie. 0: none do, or all of them are in level 0, where they lie over each other.
inline int last_level(const rocksdb::ColumnFamilyMetaData& facts) {
  int last = 0;
  for (const auto& level : facts.levels) {
    if (!level.files.empty()) last = level.level;
  }
  return last;
}

}  // namespace lsmfs::kv
