// kv/scrub: verifies the tables of an open database as they are on the device.
//
// It opens each table apart from the database (kv/apart): no block comes from a cache, and what it meets stops nothing.
//
// Threads: all functions, from any thread.
#pragma once

#include <rocksdb/db.h>

#include "lsmfs/kv.h"

namespace lsmfs::kv {

// The next table of a family in `range`, which is that of RocksDB's file numbers; it begins with all that are there. Errors: EINTR
// (stopped), ENOMEM.
Result<StoreScrubStep> scrub_next_table(Volume& volume, rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, Family family,
                                        ScrubRange& range, const Stop& stop);

// Of all of a family.
ByteCount table_bytes(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle);

}  // namespace lsmfs::kv
