// kv/status: the translation between RocksDB's statuses and errno values.
//
// Total in both directions: every status that is not OK gives a positive errno, every errno gives
// a status that is not OK. Where both sides know the condition the round trip keeps it.
// Threads: pure functions.
#pragma once

#include <rocksdb/io_status.h>
#include <rocksdb/status.h>

#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::kv {

// Must hold: !status.ok(). `what` says what was being done ("commit").
Error to_error(const rocksdb::Status& status, std::string_view what);

// Success, or to_error().
Result<void> to_result(const rocksdb::Status& status, std::string_view what);

// What a FileSystem answers to RocksDB. A missing file is NotFound, as RocksDB's contract demands.
rocksdb::IOStatus to_io_status(const Error& error);

}  // namespace lsmfs::kv
