#include "kv/sizing.h"

#include <algorithm>

namespace lsmfs::kv {

namespace {

// Level 0 may hold this many memtables' worth when space is short. 4 start a compaction; while it
// runs, some more arrive.
constexpr std::uint64_t kTightLevel0 = 6;
constexpr std::uint64_t kLevelBaseMemtables = 4;  // what one compaction of level 0 brings down

// RocksDB keeps all tables open and lists them in the manifest: so there are at most so many of the target size.
constexpr std::uint64_t kTables = 40'000;

// Under whole granules, since one byte over a granule takes a whole further one.
std::uint64_t under(std::uint64_t size) { return size - beyond_target(size); }

std::uint64_t level0_compaction(std::uint64_t memtable, std::uint64_t table) {
  return (kTightLevel0 + kLevelBaseMemtables) * on_volume(memtable) + on_volume(table);
}

}  // namespace

Sizing Sizing::plan(const VolumeUsage& usage, ByteCount cache) {
  Sizing s;
  s.total = usage.table_total.v;
  s.fixed = usage.fixed_total.v;
  s.cache = std::max(cache.v, 8 * MiB);

  // A volume must hold many memtables, and memory about eight (three or four of each family):
  // larger ones save write amplification, smaller ones space for compactions.
  const std::uint64_t memtable =
      std::clamp(round_down(std::min(s.total / 256, s.cache / 8), MiB), 2 * MiB, 64 * MiB);
  s.blocks_memtable = under(memtable);
  s.names_memtable = under(std::max(memtable / 4, MiB));

  // A part of a granule is lost with each table, so large ones, as far as compactions of them fit.
  const std::uint64_t table =
      std::max(std::clamp(round_down(s.total / 512, MiB), 2 * MiB, 32 * MiB), round_up(s.total / kTables, MiB));
  s.table = under(table);
  s.names_table = under(std::clamp(table / 4, 2 * MiB, 32 * MiB));  // a filter is read as one: 1.2 MB at most
  s.level_base = kLevelBaseMemtables * memtable;
  s.names_level_base = std::max(s.level_base / 4, MiB);
  // A table overlaps about `fanout` tables of the level below, so this is what one compaction there is to take. It takes up to three
  // tables more: the one that went over the bound, and one at each end.
  const bool small = s.total < GiB;
  s.compaction = static_cast<std::uint64_t>(s.fanout + 5) * table * (small ? 1 : kInputsOverLimit);
  s.level0_tight = kTightLevel0 * memtable;

  // One flush beside one or two compactions: two cores, and a flush must never wait for a compaction.
  s.background_jobs = small ? 2 : 3;

  // Each family's memtables plus slack; the second half is what may be written while they are flushed.
  s.log = std::max(s.fixed / 2, MiB);
  // Each change of the tables is synced, and so takes a block of the log region for some 140 bytes of the manifest. A new
  // one begins with all tables there are, which must be well within the limit.
  constexpr std::uint64_t kManifestTable = 250;
  s.manifest = s.total / table * kManifestTable + s.fixed / 512;
  // All inputs of a compaction at once, up to 20 tables of level 0: 40 MiB, or a sixth of a smaller cache. Under 512 KiB a
  // disk would rather seek than read.
  s.readahead = std::clamp(round_down(s.cache / 128, 64 * KiB), 512 * KiB, 2 * MiB);

  const std::uint64_t first = level0_compaction(memtable, table);
  const std::uint64_t below = s.compaction + 3 * table;
  const std::uint64_t running = small ? std::max(first, below) : first + below;
  const std::uint64_t flushes = on_volume(memtable) + on_volume(s.names_memtable);
  s.working = std::min(running + flushes + table, s.total / 3);  // a table that small ones are merged into
  s.merging = s.working - flushes - table;
  s.merge = std::min(std::max(first, below), s.merging);
  // What is obsolete and not merged away yet, when compactions have caught up: all that levels above the last hold may replace
  // rows of it. These are level 0 and the base level, and of the others each holds a `fanout`th of the one below.
  // Of a small volume less is kept back: more of it is merged sooner.
  s.names_above = kLevelBaseMemtables * on_volume(s.names_memtable) + s.names_level_base;
  const std::uint64_t above = s.names_above + (kTightLevel0 + kLevelBaseMemtables) * memtable;
  const std::uint64_t levels = (s.total - s.working) / static_cast<std::uint64_t>(s.fanout);
  s.reserve = std::min(s.working + above + levels, std::max(s.working + levels, s.total * 3 / 8));
  // The tables at both ends of a piece reach out of it, each over as much as one compaction may take in.
  s.piece = std::max(s.compaction / 2, s.reserve / 4);
  return s;
}

}  // namespace lsmfs::kv
