// kv/widest: how much the widest compaction between two levels would take in, where RocksDB sets no bound (kBoundedInputs).
//
// A compaction begins with one table, takes in the tables below that overlap it, and then all tables of its own level that lie
// within the range of these. One table that spans much thus brings everything above it. The bound here is an upper one.
#pragma once

#include <rocksdb/metadata.h>

#include <cstdint>

namespace lsmfs::kv {

// Bytes on the volume of all that the widest compaction from any level below level 0 to the next would read, and so at most write.
// Tables below which nothing lies move without being written, and count nothing.
std::uint64_t widest_merge(const rocksdb::ColumnFamilyMetaData& facts);

}  // namespace lsmfs::kv
