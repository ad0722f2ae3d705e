// kv/sizing: how large everything may get on a volume of a given size. Arithmetic only.
//
// The point of it: RocksDB must never meet a full device, so the space that its own work can need
// at the same time is known beforehand and kept back.
#pragma once

#include <rocksdb/version.h>

#include <cstdint>

#include "lsmfs/volume.h"

namespace lsmfs::kv {

// What one compaction takes in may be so many times what RocksDB is told (max_compaction_bytes). Up to 8.11 it keeps to that, for it
// has an option which says so. 9.0 and 9.1 know no bound; from 9.2 on it is twice as much.
inline constexpr std::uint64_t kInputsOverLimit = ROCKSDB_MAJOR < 9 ? 1 : 2;

struct Sizing {
  std::uint64_t total = 0;            // the region of the tables
  std::uint64_t fixed = 0;            // the region of logs, manifest and options
  std::uint64_t blocks_memtable = 0;  // bytes at which a memtable is written to a table
  std::uint64_t names_memtable = 0;
  std::uint64_t table = 0;            // target size of a table of blocks
  std::uint64_t names_table = 0;
  std::uint64_t level_base = 0;       // of the first sorted level, for blocks
  std::uint64_t names_level_base = 0;
  int fanout = 10;                    // each level holds this many times the one above
  std::uint64_t compaction = 0;       // most bytes that one compaction below level 0 takes in
  std::uint64_t piece = 0;            // a wide range is compacted in pieces of so many bytes (kv/compact.h)
  std::uint64_t names_above = 0;      // bytes of names that lie over their last level when compactions have caught up
  std::uint64_t level0_tight = 0;     // bytes in level 0 that the reserve allows for
  std::uint64_t log = 0;              // write-ahead log at which memtables are flushed
  std::uint64_t manifest = 0;         // manifest at which a new one is begun
  int background_jobs = 3;
  std::uint64_t cache = 0;            // block cache, memtables charged to it
  std::uint64_t readahead = 0;        // of a compaction, for each file it reads
  std::uint64_t merge = 0;            // most bytes that one compaction is expected to take in, also one of level 0
  std::uint64_t merging = 0;          // most that those take in that run at the same time on a full volume
  std::uint64_t working = 0;          // that, and what flushes write before compactions give something back
  std::uint64_t reserve = 0;          // kept back from data: that, and what is obsolete and not merged away

  static Sizing plan(const VolumeUsage& usage, ByteCount cache);
};

// What a table of `size` bytes takes of the volume.
constexpr std::uint64_t on_volume(std::uint64_t size) { return round_up(size, kTableGranule); }
// How far a table of the last level ends after its target at most: by a block, its index, of about a thousandth, and its properties.
constexpr std::uint64_t beyond_target(std::uint64_t target) { return 80 * KiB + target / 1000; }
// What a byte of tables with this target takes, where all end just before a granule does.
constexpr double taken_per_byte(std::uint64_t target) {
  const std::uint64_t beyond = beyond_target(target);
  return static_cast<double>(on_volume(target + beyond)) / static_cast<double>(target + beyond / 2);
}

}  // namespace lsmfs::kv
