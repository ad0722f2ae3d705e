// kv/verify: reads whole tables for the sake of their checksums.
#pragma once

#include <rocksdb/db.h>

#include <string>
#include <vector>

#include "kv/fail_stop.h"
#include "lsmfs/base.h"

namespace lsmfs::kv {

// As Store::verify() for one family.
Result<std::vector<std::string>> damaged_tables(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                                const FailStop& fail_stop,
                                                const std::function<void(ByteCount)>& progress);

}  // namespace lsmfs::kv
