// kv/options: every RocksDB option that lsmfs sets, each with its reason. The only such place.
//
// Left alone on purpose, for they are unsafe with this library version or break a promise of the
// store: unordered_write, atomic_flush, wal_compression, log recycling, rate limiter, prefix
// extractor, SingleDelete, change_level, async_io, BlobDB.
#pragma once

#include <rocksdb/options.h>

#include <memory>

#include "kv/caches.h"
#include "kv/sizing.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

inline constexpr const char* kNamesFamily = "default";  // RocksDB demands one of this name
inline constexpr const char* kBlocksFamily = "blocks";

// Level-0 tables at which commits wait for compaction: before RocksDB's own brakes, which hold
// back all writers at once and have hung in this version.
inline constexpr int kLevel0Wait = 20;
inline constexpr int kLevel0Stop = kLevel0Wait + 16;  // where those brakes stop them
// Memtables of a family at which commits wait for a flush, likewise: as much as so many full ones hold, or so many of any size that
// wait for theirs. A flush that the log needs takes small ones.
inline constexpr int kMemtablesFull = 3;
inline constexpr int kMemtablesMost = 5;

// What the options refer to; must outlive the database.
struct OptionParts {
  rocksdb::Env* env = nullptr;
  std::shared_ptr<rocksdb::Logger> logger;
  std::shared_ptr<rocksdb::EventListener> listener;
  Caches caches;
  std::shared_ptr<rocksdb::Statistics> statistics = nullptr;
};

rocksdb::DBOptions db_options(const Sizing& sizing, const OptionParts& parts, bool create);
rocksdb::ColumnFamilyOptions family_options(Family family, const Sizing& sizing, const OptionParts& parts);

rocksdb::WriteOptions write_options();
rocksdb::FlushOptions flush_options();
rocksdb::ReadOptions read_options();
// A cursor's; the bounds must be set by whoever keeps their bytes.
rocksdb::ReadOptions cursor_options(const CursorOptions& options);
rocksdb::CompactRangeOptions compact_options();
// Of tables of rows that come in bulk, from those of their family.
rocksdb::Options bulk_options(rocksdb::Options options);
rocksdb::IngestExternalFileOptions ingest_options();
// Reads a family's tables past all caches: what has been read once is read again.
std::shared_ptr<rocksdb::TableFactory> uncached_tables(Family family);

}  // namespace lsmfs::kv
