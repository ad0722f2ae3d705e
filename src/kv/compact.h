// kv/compact: compacts a range piece by piece, so that no compaction takes in more than its share.
//
// Asked for a wide range, RocksDB 7.8 joins neighbouring tables of a level until they and what they overlap
// below exceed its bound, and keeps the one that went over it. With much of the level below between two such
// neighbours, that is most of the volume in one compaction, for which there is no space.
#pragma once

#include <rocksdb/db.h>

#include <cstdint>
#include <functional>
#include <string_view>

namespace lsmfs::kv {

// Compacts the rows of [from, to], an empty `to` being the end of all, in pieces in which at most `piece` bytes of tables begin.
// Pieces that have tables in the last level only are left alone where `options` leave that level alone. Stops at the first error.
// `before_each` is called before each piece.
rocksdb::Status compact_in_pieces(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::CompactRangeOptions& options,
                                  std::string_view from, std::string_view to, std::uint64_t piece,
                                  const std::function<void()>& before_each = [] {});

}  // namespace lsmfs::kv
