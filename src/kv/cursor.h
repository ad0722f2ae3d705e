// kv/cursor: a Cursor on a RocksDB iterator.
#pragma once

#include <rocksdb/db.h>

#include <memory>

#include "kv/fail_stop.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

// `db`, `family` and `fail_stop` must outlive the cursor.
std::unique_ptr<Cursor> make_cursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family,
                                    const CursorOptions& options, const FailStop& fail_stop);

}  // namespace lsmfs::kv
