// kv/sinking: ranges of rows whose tables are to sink, that is to be merged down to the last level, where what they erase and
// replace goes.
//
// A manual compaction of a range takes in all that lies between the tables it begins with, for which nothing is kept back on a
// nearly full volume. So tables are marked instead, and RocksDB picks compactions for them as it does for all others: one after
// the other, each within max_compaction_bytes. A mark lasts for one level; so they are set again whenever tables have changed.
// What it is not: a thread. Not thread-safe.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lsmfs/kv.h"

namespace lsmfs::kv {

class Sinking {
 public:
  struct Range {
    Family family = Family::names;
    std::string from, to;        // keys, both of them in it
    std::uint64_t sequence = 0;  // RocksDB's: of what was written later nothing need sink
  };

  void add(Range range) { ranges_.push_back(std::move(range)); }
  void clear() { ranges_.clear(); }
  bool empty() const { return ranges_.empty(); }

  // Marks the tables that have not arrived, and forgets ranges that have none. All must have been flushed up to their sequence.
  // Where no level lies below level 0 the tables are merged at once, in this thread.
  rocksdb::Status mark(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);

 private:
  std::vector<Range> ranges_;
};

}  // namespace lsmfs::kv
