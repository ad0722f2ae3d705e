#include "kv/options.h"

#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>
#include <rocksdb/version.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "kv/file_system.h"
#include "kv/footer.h"
#include "kv/patch.h"

namespace lsmfs::kv {

namespace {

// Rows: a name's record has some 150 bytes and is looked up singly, so 16 KiB is a fair price of
// one cold lookup and still holds a hundred neighbours for a listing. Blocks are up to 4 KiB each
// and read in long runs: 64 KiB compress better and halve the seeks.
constexpr std::size_t kNamesTableBlock = 16 * KiB;
constexpr std::size_t kBlocksTableBlock = 64 * KiB;

constexpr int kBloomBits = 10;  // 1 % of needless reads

rocksdb::BlockBasedTableOptions table_options(Family family, std::shared_ptr<rocksdb::Cache> cache) {
  rocksdb::BlockBasedTableOptions t;
  t.block_cache = std::move(cache);
  t.block_size = family == Family::names ? kNamesTableBlock : kBlocksTableBlock;
  // 5 is the newest that every version from 6.6 on reads, with the faster filters.
  t.format_version = kTableFormat;
  t.checksum = rocksdb::kXXH3;  // three times as fast as CRC32C without its instruction
  // The index and filters of a large volume exceed any cache: in it, not beside it.
  t.cache_index_and_filter_blocks = true;
  t.cache_index_and_filter_blocks_with_high_priority = true;
  t.pin_l0_filter_and_index_blocks_in_cache = true;  // every lookup asks all of level 0
  // Not the two-level index, although it would be cached in smaller pieces: version 7.8 forgets
  // the read tier when it reads those, so that Wait::no waits for the device. Instead keys of the
  // index share their prefixes, which in path order shrinks it to about a thousandth of the data.
  t.index_type = rocksdb::BlockBasedTableOptions::kBinarySearch;
  t.index_block_restart_interval = 16;
  if (family == Family::names) {
    // Creating a file looks up a name that is not there. Blocks are known to exist from the
    // inode's size; a filter on them would cost memory and answer nothing.
    t.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBits));
    t.whole_key_filtering = true;
  }
  return t;
}

rocksdb::DbPath directory() { return {kDirectory, std::numeric_limits<std::uint64_t>::max()}; }

}  // namespace

rocksdb::DBOptions db_options(const Sizing& sizing, const OptionParts& parts, bool create) {
  rocksdb::DBOptions o;
  o.env = parts.env;
  o.info_log = parts.logger;
  o.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  o.statistics = parts.statistics;
  if (parts.listener) o.listeners = {parts.listener};
  o.create_if_missing = create;
  // Both at once, so that a crash in between leaves a store that opens.
  o.create_missing_column_families = true;
  // The only directory, twice. Then RocksDB does not choose tables of level 0 to move (TryPickL0TrivialMove). Where it must write those
  // after all, it does not cut them by the level below, and one lies over more of that than a compaction may take in. Up to 9.2 it
  // does not even ask whether another compaction writes where they come to lie.
  o.db_paths.assign(2, directory());

  // ---- errors
  o.paranoid_checks = true;             // any write error stops the database
  o.max_bgerror_resume_count = 0;       // and it does not start again by itself
  // An error of that file is a device error, which FailStop already knows; true makes 7.8 leak a
  // family while it opens and abort for that.
  o.fail_if_options_file_error = false;

  // ---- log and recovery
  o.manual_wal_flush = false;  // each commit reaches the volume's buffer, so sync() finds it there
  // The log is cut at the first gap, over all log files: what is left is a prefix of the commits.
  // Tolerating a bad tail per file would skip commits in the middle; absolute consistency would
  // refuse the half-written tail that every crash leaves.
  o.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  o.avoid_flush_during_recovery = true;  // a mount after a crash writes no table
  o.avoid_flush_during_shutdown = true;  // close() flushes; the destructor alone must not
  o.max_total_wal_size = sizing.log;
  o.recycle_log_file_num = 0;      // stale records would replay: their headers carry no log number
  o.wal_bytes_per_sync = 0;        // the volume writes in large pieces by itself
  o.bytes_per_sync = 0;
  o.max_manifest_file_size = sizing.manifest;  // the default of 1 GiB exceeds the fixed region
  o.manifest_preallocation_size = std::min<std::size_t>(sizing.manifest / 4, MiB);
  o.log_readahead_size = MiB;      // replay in large reads, not in 32 KiB ones

  // ---- files and I/O
  o.use_direct_reads = true;  // aligned buffers; nothing below caches
  o.use_direct_io_for_flush_and_compaction = false;  // true would skip Sync(); the volume is direct anyway
  o.allow_mmap_reads = false;
  o.allow_mmap_writes = false;
  o.max_open_files = -1;  // a table stays open: no lookup in a second cache, and EAGAIN means "not cached"
  o.max_file_opening_threads = 8;  // at mount; they wait for the device, not for a core
  o.skip_stats_update_on_db_open = true;  // would read the properties of every table at mount
  // The sizes of tables are checked at mount, as by default: the volume has them in memory.
  o.compaction_readahead_size = sizing.readahead;  // the default of 0 reads block by block
  o.writable_file_max_buffer_size = MiB;           // what one append to a table carries
  // Deleting a table takes the volume's lock and, when a cursor was the last to hold it, would
  // happen in the reader's thread.
  o.avoid_unnecessary_blocking_io = true;

#if ROCKSDB_MAJOR > 8 || (ROCKSDB_MAJOR == 8 && ROCKSDB_MINOR >= 6)
  // A compaction may find fewer rows than its tables say they have: those of a damaged block that was set aside (kv/set_aside).
  o.compaction_verify_record_count = false;
#endif

  // ---- threads and memory
  o.max_background_jobs = sizing.background_jobs;  // of which one flushes: more have deadlocked
  o.max_subcompactions = 1;                        // two cores
  // Memtables count against the cache (that of blocks, which fill most of them); over half of it the oldest is flushed early.
  o.write_buffer_manager =
      std::make_shared<rocksdb::WriteBufferManager>(sizing.cache / 2, parts.caches.of(Family::blocks), /*allow_stall=*/false);
  o.enable_pipelined_write = false;  // commits rarely meet; visible in order is worth more

  // ---- nothing that writes by the clock
  o.stats_dump_period_sec = 0;
  o.stats_persist_period_sec = 0;
  return o;
}

rocksdb::ColumnFamilyOptions family_options(Family family, const Sizing& sizing, const OptionParts& parts) {
  const bool names = family == Family::names;
  rocksdb::ColumnFamilyOptions o;
  o.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table_options(family, parts.caches.of(family))));
  o.merge_operator = make_patch_operator();
  o.cf_paths = {directory()};

  o.write_buffer_size = names ? sizing.names_memtable : sizing.blocks_memtable;
  // A little less than a cached block of file data takes, for one goes where the other was: with pieces of 1 MiB, as by default,
  // what the cache has let go of for them stays in the heap. Small memtables have smaller pieces anyway.
  if (o.write_buffer_size >= 4 * MiB) o.arena_block_size = 56 * KiB;
  // One in use and the rest to flush; commits wait at kMemtablesMost, before RocksDB would at this.
  o.max_write_buffer_number = kMemtablesMost + 2;
  o.max_write_buffer_size_to_maintain = 0;  // no transactions look back
  o.memtable_whole_key_filtering = names;   // negative lookups again
  o.memtable_prefix_bloom_size_ratio = names ? 0.02 : 0;

  // Leveled, sized from the last level up: space amplification of 1.1, so deleted data goes soon.
  o.compaction_style = rocksdb::kCompactionStyleLevel;
  o.level_compaction_dynamic_level_bytes = true;
  o.max_bytes_for_level_base = names ? sizing.names_level_base : sizing.level_base;
  o.max_bytes_for_level_multiplier = sizing.fanout;
  // The filter of a names table is read as one: a quarter of the size keeps it at some 300 KiB.
  o.target_file_size_base = names ? sizing.names_table : sizing.table;
  o.target_file_size_multiplier = 1;
  o.max_compaction_bytes = sizing.compaction / kInputsOverLimit;
#if ROCKSDB_MAJOR < 9
  // True, the default, adds whatever tables lie within the range of those taken in so far, however many: one table of the last
  // level that spans the tree has then brought most of the level above it into one compaction, which no reserve can hold.
  o.ignore_max_compaction_bytes_for_input = false;
#endif
  o.level0_file_num_compaction_trigger = 4;
  o.level0_slowdown_writes_trigger = kLevel0Wait + 8;
  o.level0_stop_writes_trigger = kLevel0Stop;
  // The brakes by estimated debt are left to the store's own, which knows the space.
  o.soft_pending_compaction_bytes_limit = 0;
  o.hard_pending_compaction_bytes_limit = 0;
  // Tables full of tombstones are compacted soon: that is how `rm -rf` gives back its space.
  o.table_properties_collector_factories = {
      rocksdb::NewCompactOnDeletionCollectorFactory(/*window=*/4096, /*trigger=*/2048, /*ratio=*/0.5)};
  o.ttl = 0;                          // nothing is rewritten by the clock
  o.periodic_compaction_seconds = 0;

  // zstd throughout. Upper levels are rewritten soon, so the cheapest level; the last level holds
  // nine tenths of the data and is written rarely, so the level where the ratio stops growing fast.
  o.compression = rocksdb::kZSTD;
  o.compression_opts.level = 1;
  o.bottommost_compression = rocksdb::kZSTD;
  o.bottommost_compression_opts.level = 3;
  o.bottommost_compression_opts.enabled = true;

  o.force_consistency_checks = true;
  o.report_bg_io_stats = false;
  return o;
}

rocksdb::WriteOptions write_options() {
  rocksdb::WriteOptions o;
  o.sync = false;  // only sync() does
  o.disableWAL = false;
  return o;
}

rocksdb::FlushOptions flush_options() {
  rocksdb::FlushOptions o;
  o.wait = true;               // whoever asks has nothing better to do
  o.allow_write_stall = true;  // a flush is what ends a stall
  return o;
}

rocksdb::ReadOptions read_options() {
  rocksdb::ReadOptions o;
  o.read_tier = rocksdb::kReadAllTier;  // what must not wait says so by MemoryOnly
  o.verify_checksums = true;
  o.async_io = false;
  o.total_order_seek = true;
#if ROCKSDB_MAJOR >= 9
  o.auto_readahead_size = false;  // trims by what is cached; a scan that skips the cache gains nothing
#endif
  return o;
}

rocksdb::ReadOptions cursor_options(const CursorOptions& options) {
  rocksdb::ReadOptions o = read_options();
  o.readahead_size = options.readahead.v;
  o.fill_cache = options.fill_cache;
  // Tables that only this cursor still holds are deleted by a background thread.
  o.background_purge_on_iterator_cleanup = true;
  return o;
}

std::shared_ptr<rocksdb::TableFactory> uncached_tables(Family family) {
  rocksdb::BlockBasedTableOptions t = table_options(family, nullptr);
  t.no_block_cache = true;
  t.cache_index_and_filter_blocks = false;
  t.cache_index_and_filter_blocks_with_high_priority = false;
  t.pin_l0_filter_and_index_blocks_in_cache = false;
  return std::shared_ptr<rocksdb::TableFactory>(rocksdb::NewBlockBasedTableFactory(t));
}

rocksdb::CompactRangeOptions compact_options() {
  rocksdb::CompactRangeOptions o;
  o.exclusive_manual_compaction = false;  // flushes and other compactions go on
  // Also rewrites tables that already lie at the bottom, so that small ones become few large ones;
  // "optimized": not what this compaction has just written.
  o.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
  o.allow_write_stall = false;
  o.max_subcompactions = 1;
  return o;
}

// Whoever brings them waits, for the processors. The next merge compresses as ever.
rocksdb::Options bulk_options(rocksdb::Options options) {
  options.bottommost_compression_opts.level = options.compression_opts.level;
  return options;
}

rocksdb::IngestExternalFileOptions ingest_options() {
  rocksdb::IngestExternalFileOptions o;
  o.move_files = true;
  o.failed_move_fall_back_to_copy = false;
  o.write_global_seqno = false;  // the list of tables has it; the table is not written again
  return o;
}

}  // namespace lsmfs::kv
