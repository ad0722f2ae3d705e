// kv/small_tables: neighbours of the last level that are small become one table.
//
// A memtable that no other table overlaps is written to a table which RocksDB only moves, down to the last level, however small it
// is; rows that compress well make small ones, and so does each unmount. Each loses up to a granule of the volume.
// What it is not: a compaction of rows that are obsolete; see kv/sinking.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/metadata.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lsmfs::kv {

// What tables of the last level under half of `target` bytes lose of the volume.
std::uint64_t lost_in_small_tables(const rocksdb::ColumnFamilyMetaData& facts, std::uint64_t target);

// The neighbours of the last level whose rows fit into one table of `target` bytes that lose most of the volume: files to be merged.
// None: no such table would take half of what they do at most.
std::vector<std::string> small_neighbours(const rocksdb::ColumnFamilyMetaData& facts, std::uint64_t target);

// Merges them, in this thread, and needs space for one more table. False: there were none, or it failed.
bool merge_small_neighbours(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, std::uint64_t target);

}  // namespace lsmfs::kv
