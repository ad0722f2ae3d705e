// kv/verify: reads whole tables for the sake of their checksums.
#pragma once

#include <rocksdb/db.h>

#include <string>
#include <vector>

#include "kv/fail_stop.h"
#include "lsmfs/base.h"

namespace lsmfs::kv {

struct DamagedTable {
  std::uint64_t number = 0;
  std::string name;
  std::string first, last;  // its least and greatest key
  std::string why;
  std::string line() const { return "table " + name + ": " + why; }
};

// Those of one family, as Store::verify() tells them.
Result<std::vector<DamagedTable>> damaged_tables(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const FailStop& fail_stop,
                                                 const std::function<void(ByteCount)>& progress = {});

// Whether a table, by the name that RocksDB's metadata gives it, is still one of the family.
bool is_live(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const std::string& name);

}  // namespace lsmfs::kv
