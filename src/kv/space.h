// kv/space: how much room there is, and when a commit has to wait for the background work.
//
// RocksDB must never meet a full device, nor use its own brakes. So this class follows a few
// numbers of the database and the volume and answers two questions: may new data come in (room),
// must a commit wait (admit), or be slow (kv/pace); and it asks for a flush of the memtables when the log needs space.
//
//   room = total - reserve - what is wanted of all that has been committed (kv/live), in tables that fill their granules, and blobs.
// What is obsolete and not merged away yet, and what a running compaction writes, comes out of the reserve and not out of room. It is 0
// when the volume can list only an eighth more files than it could at first, and while compactions starve: one of those that
// RocksDB needs has found no space, and none has succeeded since. Nothing is lost by that, and erasing goes on.
//
// Threads: all functions, from any thread. Locks: mutex_ is a leaf but for RocksDB's own, which
// are taken under it; RocksDB never calls this class with a lock held that it needs for that.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kv/blob_space.h"
#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/live.h"
#include "kv/merges.h"
#include "kv/pace.h"
#include "kv/sizing.h"
#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class SpaceGauge {
 public:
  // `want_flush` is called, perhaps often and with locks held, while the log takes over half of the
  // fixed region. (RocksDB counts the bytes of its records, not the blocks that each sync begins.)
  // `give_way` is told when compactions are wanted, `merges` what space there is for them.
  // `want_space` likewise, while commits wait for space that merging brings back.
  // `want_measure`, with a time: measure_tables() is to be called then.
  SpaceGauge(Volume& volume, const Sizing& sizing, const FailStop& fail_stop, GiveWay& give_way, Merges& merges, const BlobSpace& blobs, Clock& clock,
             std::function<void()> want_flush, std::function<void()> want_space, std::function<void(Clock::Time)> want_measure,
             std::function<void(std::string_view)> notice)
      : volume_(volume), sizing_(sizing), fail_stop_(fail_stop), give_way_(give_way), merges_(merges), blobs_(blobs), clock_(clock),
        want_flush_(std::move(want_flush)), want_space_(std::move(want_space)), want_measure_(std::move(want_measure)), notice_(std::move(notice)),
        total_(sizing.total), reserve_(sizing.reserve) {}

  // The volume has so much for tables now. The reserve is that of the next time it is opened, so that there is not less room then.
  void grown(const Sizing& planned);
  // Store::least_tables(), with such a cache; and what tables, blobs and memtables take now.
  std::uint64_t least_total(const VolumeUsage& usage, ByteCount cache) const;
  std::uint64_t taken() const { return tables_bytes_.load() + blobs_.taken() + unflushed_.load(); }

  // Before anything else, once the database is open. handles: names, blocks.
  void start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);

  // Before the database is closed.
  void end();

  Store::Room room() const;  // also for as many rows as were removed since there was little
  Store::Room room_for_names() const;
  Store::Room room_to_replace() const;
  Store::Space space() const;

  // Before a commit of `bytes`: waits until it may come. Errors of FailStop; ENOSPC: it never may, since compactions starve.
  Result<void> admit(std::uint64_t bytes);
  // How many rows family blocks has, before the first commit; and after a commit, RocksDB's sequence number, and what it erased.
  void note_rows(std::uint64_t rows);
  // Rows that have come in bulk: their table is there; they were committed after all.
  void bulk_taken_in(std::uint64_t rows);
  void bulk_committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows);
  void committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows, const std::vector<ErasedRange>& ranges, const ErasedRows& erased, std::int64_t in_bulk);
  // Live::worst().
  std::optional<std::pair<std::string, std::string>> worst();
  // Blobs came, went, or have another size.
  void blobs_changed();
  // After something that adds to the log without adding rows.
  void count_log_block() { since_refresh_.fetch_add(kDeviceBlock, std::memory_order_relaxed); }

  // For people: bytes of the volume, as of the last time they were measured.
  struct Figures {
    std::uint64_t total = 0, reserve = 0, wanted = 0, tables = 0, level0_tables = 0;
    bool starved = false;
    std::uint64_t stalls = 0, stall_ns = 0, delays = 0, delay_ns = 0;  // of commits, so far
  };
  Figures figures() const;

  // Tables came or went. From RocksDB's listener, in threads of its background work: only these and the keeper's walk all tables.
  // Thousands take a while, so it may be left for later.
  void tables_changed();
  void measure_tables();  // now
  void flush_begins(Family family) { pace_.flush_begins(family, clock_.now()); }
  void flush_ended(Family family, std::uint64_t bytes, std::uint64_t sequence);  // those of its rows; of the last of them
  // The memtables of both families were, so that nothing is in the log but what has come since.
  void all_flushed();
  // Of compactions that nobody asked for but RocksDB, in their thread. The first waits, though not for ever, while this one
  // would only meet the same end as the last, and on a nearly full volume while a flush runs. The third is for all.
  void compaction_begins();
  void compaction_starved();
  void compaction_succeeded(std::uint64_t bytes, Clock::Duration took) {  // it has read so many
    starved_.store(false);
    if (bytes >= sizing_.table) pace_.merged(took);  // small ones tell nothing of those that writers wait for
  }
  // Whether small tables lose enough of the volume to be merged, and more than when it last said so.
  bool has_small_tables();

 private:
  bool stale() const;
  // A flush would free much of the log region. Else it is full of other things (the manifest), and flushes only add to them.
  bool log_has_grown() const;
  // There is little of it left, and more soon.
  bool log_waits() const;
  void try_refresh();
  // How much may be wanted. Growth of file data ends at the first limit. Names go on a little further, so that a file can still be
  // made, and so do as many rows as were removed, since the estimate may have grown meanwhile. Rows that replace others have half
  // of the slack. The other half is for estimates that err, and for granules that are lost.
  std::uint64_t limit() const { return total_.load() - reserve_.load() - kTableGranule; }  // the granule is for the first names
  std::uint64_t limit_of_names() const { return limit() + slack() / 16; }
  std::uint64_t limit_again() const { return limit() + little(); }
  std::uint64_t limit_to_replace() const { return limit() + slack() / 2; }
  std::uint64_t little() const { return slack() / 8; }
  // What the reserve has for rows that are obsolete, and for estimates that err.
  std::uint64_t slack() const { return reserve_.load() - sizing_.working; }
  double row_on_volume() const { return Live::kRowBytes * taken_per_byte(sizing_.table); }  // of one that cannot be compressed
  ByteCount in_rows(std::uint64_t on_volume) const;  // bytes of file data that cannot be compressed
  // What the answers are made of, of one moment.
  struct Counted {
    std::uint64_t wanted = 0;            // bytes of the volume
    std::uint64_t names_in_granule = 0;  // bytes of names, as far as the first granule has them
    std::uint64_t removed = 0;           // bytes in rows, since there was little room
    double growth_of_replaced = 1;       // at most so much of what replaces rows, as part of it
    std::uint64_t rows = 0;              // of family blocks
  };
  Counted counted() const;  // measures before, if the last time is too long ago
  ByteCount under(std::uint64_t limit, const Counted& counted) const;  // in rows
  ByteCount room(const Counted& counted) const;
  bool takes_new() const { return listed_.load() && !starved_.load(); }
  struct Memtables {
    Pace::Backlog families[2];  // by family_number
    bool many = false;          // of one of them
    std::uint64_t bytes() const { return families[0].bytes + families[1].bytes; }
    bool grew_from(const Memtables& before) const {
      return families[0].bytes >= before.families[0].bytes && families[1].bytes >= before.families[1].bytes;
    }
  };
  Memtables memtables() const;
  struct Tables {
    std::uint64_t bytes = 0;  // of the volume
    std::uint64_t last = 0;   // likewise, of the last levels
    std::uint64_t lost = 0;   // in small ones
    std::uint64_t level0_bytes = 0, level0_tables = 0, base_bytes = 0, merge_bytes = 0;  // of the family that has more
    std::vector<Live::Table> names, blocks;
  };
  struct Rows {
    std::uint64_t count = 0;
    bool erases = false;  // there are tombstones
  };
  using RowsOfTables = std::unordered_map<std::uint64_t, Rows>;  // by their numbers
  static std::vector<Live::Table> merged_tables(const rocksdb::ColumnFamilyMetaData& facts, const RowsOfTables& known);
  Tables tables() LSMFS_REQUIRES(tables_mutex_);
  void learn_rows(const rocksdb::ColumnFamilyMetaData& facts) LSMFS_REQUIRES(tables_mutex_);  // of family blocks
  void measure() LSMFS_REQUIRES(mutex_);
  std::uint64_t count() LSMFS_REQUIRES(mutex_);  // what is wanted, and returns it
  std::uint64_t removed(std::uint64_t wanted) LSMFS_REQUIRES(mutex_);  // bytes in rows
  bool must_wait() const;
  bool nothing_to_merge();  // so a wait for space would be in vain
  std::int64_t spare() const;  // bytes that commits may still take before they have to wait for merging; less than none: they have to
  // Removes tables that nobody needs any more. RocksDB forgets to look for them when the last who read them was a get, until a flush
  // or a compaction has ended; and that may be what waits for their space.
  void purge();

  Volume& volume_;
  const Sizing sizing_;
  const FailStop& fail_stop_;
  GiveWay& give_way_;
  Merges& merges_;
  const BlobSpace& blobs_;
  Clock& clock_;
  Pace pace_;
  const std::function<void()> want_flush_, want_space_;
  const std::function<void(Clock::Time)> want_measure_;
  const std::function<void(std::string_view)> notice_;
  std::atomic<std::uint64_t> total_, reserve_;  // those of sizing_, until the volume has grown
  std::atomic<rocksdb::DB*> db_ = nullptr;  // with the handles: changes under tables_mutex_
  rocksdb::ColumnFamilyHandle* handles_[2] = {};

  Mutex tables_mutex_;  // one measures tables at a time, and the database stays open meanwhile; before mutex_
  RowsOfTables rows_ LSMFS_GUARDED_BY(tables_mutex_);  // of those of blocks
  std::atomic<std::int64_t> next_ns_ = 0;  // when all tables may be walked again
  Mutex mutex_;  // measuring
  Live live_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t names_bytes_ LSMFS_GUARDED_BY(mutex_) = 0;        // of tables of the last level
  std::uint64_t names_above_bytes_ LSMFS_GUARDED_BY(mutex_) = 0;  // and over it
  std::uint64_t blocks_bytes_ LSMFS_GUARDED_BY(mutex_) = 0;       // of tables of the last level
  std::uint64_t last_taken_ LSMFS_GUARDED_BY(mutex_) = 0;         // of the volume, by both
  std::uint64_t filled_rows_ LSMFS_GUARDED_BY(mutex_) = 0;        // the most that there were since there was little room
  Memtables memtables_ LSMFS_GUARDED_BY(mutex_);                  // less what of them is in tables that are counted

  mutable Mutex counted_mutex_;  // a leaf, held for no more than a copy; who writes holds mutex_, too
  Counted counted_ LSMFS_GUARDED_BY(counted_mutex_);

  Mutex wait_mutex_;  // waiting
  std::condition_variable changed_;
  std::uint64_t changes_ LSMFS_GUARDED_BY(wait_mutex_) = 0;

  std::atomic<std::uint64_t> lost_ = 0, lost_before_ = 0;  // in small tables
  std::atomic<std::uint64_t> stalls_ = 0, stall_ns_ = 0, delays_ = 0, delay_ns_ = 0;
  std::atomic<bool> all_flushed_ = false, many_memtables_ = false;
  std::atomic<bool> listed_ = true;       // the volume can list enough files more
  std::atomic<bool> counts_rows_ = false; // the caller says how many there are
  std::atomic<bool> starved_ = false;
  std::atomic<std::uint64_t> starved_with_ = 0;  // what was free when the last compaction began that found no space
  static inline thread_local std::uint64_t began_with_ = 0;
  std::atomic<std::int64_t> measured_ns_ = 0, all_flushed_ns_ = 0;
  std::atomic<std::uint64_t> since_refresh_ = 0;  // bytes committed
  std::atomic<std::uint64_t> flushed_ = 0;        // sequence number of the last row of blocks in tables
  std::atomic<std::uint64_t> free_ = 0, unflushed_ = 0, level0_bytes_ = 0, tables_bytes_ = 0;
  std::atomic<std::uint64_t> base_bytes_ = 0, merge_bytes_ = 0;  // of the level below level 0; what a merge of the two takes
  std::atomic<std::uint64_t> level0_tables_ = 0;
  std::atomic<std::uint64_t> fixed_free_ = 0;
  std::atomic<std::uint64_t> fixed_free_after_flush_ = 0;  // the most there was since all was flushed
};

}  // namespace lsmfs::kv
