// kv/cursor: a Cursor on a RocksDB iterator.
#pragma once

#include <rocksdb/db.h>

#include <functional>
#include <memory>
#include <string_view>

#include "kv/fail_stop.h"
#include "kv/lost.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

// Hears when one step of a cursor has passed over kPassedAtOnce or more rows that are erased or replaced, all between two keys.
using Passed = std::function<void(std::string_view from, std::string_view to, std::uint64_t rows)>;
inline constexpr std::uint64_t kPassedAtOnce = 256;

// Hears of an error that a cursor has met.
using Met = std::function<void(const rocksdb::Status&)>;

// Of `of`, whose handle is `family`. These, `fail_stop` and `lost` must outlive the cursor. It stops at what is lost, with EUCLEAN.
std::unique_ptr<Cursor> make_cursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, Family of, const CursorOptions& options,
                                    const FailStop& fail_stop, const LostRanges& lost, Passed passed, Met met);

}  // namespace lsmfs::kv
