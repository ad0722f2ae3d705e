#include "kv/sinking.h"

#include <rocksdb/experimental.h>
#include <rocksdb/metadata.h>

#include <algorithm>

#include "kv/batch.h"
#include "kv/levels.h"

namespace lsmfs::kv {

namespace {

// Where the tables of a family are.
struct Levels {
  int last = 0;
  std::vector<rocksdb::SstFileMetaData> above;  // the last
};

Levels levels_of(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(handle, &facts);
  Levels levels{.last = last_level(facts)};
  for (auto& level : facts.levels) {
    if (level.level < std::max(levels.last, 1)) std::ranges::move(level.files, std::back_inserter(levels.above));
  }
  return levels;
}

}  // namespace

rocksdb::Status Sinking::mark(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  rocksdb::Status status;
  for (const Family family : {Family::names, Family::blocks}) {
    if (std::ranges::none_of(ranges_, [&](const Range& range) { return range.family == family; })) continue;
    auto* const handle = handles[family_number(family)];
    const Levels levels = levels_of(db, handle);
    std::erase_if(ranges_, [&](const Range& range) {
      if (range.family != family) return false;
      const auto has_to = [&](const auto& table) {
        return table.smallest_seqno <= range.sequence && table.smallestkey <= range.to && range.from <= table.largestkey;
      };
      if (!status.ok() || std::ranges::none_of(levels.above, has_to)) return status.ok();
      const rocksdb::Slice from(range.from), to(range.to);
      if (levels.last > 0) {
        status = rocksdb::experimental::SuggestCompactRange(&db, handle, &from, &to);
        return false;
      }
      rocksdb::CompactRangeOptions options;
      options.exclusive_manual_compaction = false;
      status = db.CompactRange(options, handle, &from, &to);
      return status.ok();
    });
  }
  return status;
}

}  // namespace lsmfs::kv
