// kv: an ordered key-value store (RocksDB) on a volume: batches, gets and cursors.
//
// What it is not: it knows nothing of files, directories or inodes; keys are byte strings in plain
// byte order. No RocksDB type leaves this layer.
//
// Promises
//   1. commit() is atomic, and commits become visible in the order in which they return.
//   2. After a crash the store holds exactly the commits up to some point, none of them in part,
//      and all of those before the last successful sync().
//   3. After a failed device write or flush every commit and sync fails; gets and cursors go on, also with what
//      keep_in_memory() is given.
//   4. Damage stays local: a part of a table that is damaged costs the rows in it, which are errors until they are written or
//      erased, and nothing else.
//   5. RocksDB never sees a full device as long as callers stop writing when room() says so. Should a compaction that it
//      needs find no space all the same, room() is 0 until one does, and everything else goes on.
//
// Threads: everything of Store may be called from any thread. A Batch or a Cursor belongs to one
// thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/volume.h"

namespace lsmfs {

enum class Family : std::uint8_t {
  names,   // small rows, looked up one by one and listed
  blocks,  // file data, read in long scans; no key begins with another one
};

// no: answer from memory or fail with EAGAIN, having changed nothing; never wait for the device
// or for a stalled writer. yes: wait as long as it takes.
enum class Wait : std::uint8_t { no, yes };

// Changes that happen together or not at all, in this order.
class Batch {
 public:
  Batch();
  ~Batch();
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;

  void put(Family family, std::string_view key, std::string_view value);
  // Blind changes of a value that need no read of it. A key without a row counts as an empty value.
  // patch: overwrites value[offset, offset + bytes.size()), growing it with zeros where needed.
  //   offset + bytes.size() is at most 64 KiB.
  void patch(Family family, std::string_view key, std::uint32_t offset, std::string_view bytes);
  // cut: drops what lies past the first `length` bytes; never grows a value.
  void cut(Family family, std::string_view key, std::uint32_t length);
  void erase(Family family, std::string_view key);
  // Erases all keys in [from, to). For thousands of keys at once: each range costs every later
  // reader a little, so few rows are better erased one by one. `rows`: how many there are, as far as is known.
  void erase_range(Family family, std::string_view from, std::string_view to, std::uint64_t rows = 0);
  // All of [from, to) is as this batch leaves it: what was lost there (Store::lost) and has no row after it has none.
  // erase_range() says so by itself, put() and erase() of their key.
  // `as_of`: who found that out read the store when it had met damage so often (Store::losses); what was lost since stays so.
  void know(Family family, std::string_view from, std::string_view to, std::optional<std::uint64_t> as_of = std::nullopt);
  // After it family blocks has so many rows, see Store::note_rows(). `in_bulk`: of those that are new, so many are put to a BulkWriter then.
  void note_rows(std::uint64_t rows, std::uint64_t in_bulk = 0);
  // What is put after save() is taken out by go_back(), or stays by keep(). Nothing else is done in between.
  void save();
  void go_back();
  void keep();

  bool empty() const;
  std::size_t bytes() const;  // encoded size
  void clear();

 private:
  friend class RocksStore;
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

// Walks keys in ascending order within [lower, upper) as they were when the cursor was made.
class Cursor {
 public:
  virtual ~Cursor() = default;
  virtual void seek(std::string_view key) = 0;  // to the first row at or after key
  virtual void next() = 0;                      // must hold: valid()
  virtual bool valid() const = 0;
  virtual std::string_view key() const = 0;     // until the next seek or next
  virtual std::string_view value() const = 0;
  // Why valid() is false: the end (success), EAGAIN (Wait::no), or a read error. After EAGAIN the
  // cursor stays invalid for good.
  virtual Result<void> status() const = 0;
};

// Keys [from, to) of a family of which nobody can say whether they have a row and which, since a part of a table is damaged.
struct LostRange {
  Family family = Family::names;
  std::string from, to;
};

struct CursorOptions {
  std::string lower, upper;  // upper "" means no bound
  Wait wait = Wait::yes;
  ByteCount readahead{0};    // how much to read from the device at a time; 0: one table block
  bool fill_cache = true;    // false for long scans, whose rows are not read again soon
};

// A blob holds large data outside of the families: whole blocks, in the order in which they were appended, each once on the device.
// Its caller gives each a number of its own, and commits rows that say what it is for. What no row names after a crash is the caller's
// to remove.
inline constexpr std::uint64_t kBlobBlock = 4096;  // bytes

// Up to where a blob can be read, as of a moment. The caller keeps it with what it commits.
struct BlobEnd {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;  // that they take, with all that belongs to them
  friend bool operator==(const BlobEnd&, const BlobEnd&) = default;
};

// Is used by one thread at a time. Its destructor gives back the space that was not used.
class BlobWriter {
 public:
  virtual ~BlobWriter() = default;
  // For how many blocks there is space for certain.
  virtual std::uint64_t room() const = 0;
  // Whole blocks, room() at most. Waits for the device now and then. Errors: as commits, and they stop these, too.
  virtual Result<void> append(Bytes blocks) = 0;
  // What was appended can be read. No commit from now on is there after a crash unless that can be read then, too.
  virtual Result<BlobEnd> precede_commits() = 0;
};

// Takes rows of family blocks past the log and the memtables, into tables of their own: for many that nobody reads yet, and whose keys come
// nearly in order. Its store must outlive it. Threads: any.
class BulkWriter {
 public:
  virtual ~BulkWriter() = default;  // what is in no table yet is lost
  // Each key once, and none of which there is a row. Must hold: the commit that has counted it (Batch::note_rows) has returned. Never waits.
  virtual void put(std::string key, std::string value) = 0;
  // Until it has memory for more. Errors: ENOSPC, which stops nothing; ECANCELED (abandoned); as commits.
  virtual Result<void> wait() = 0;
  // All that was put can be read when it returns, and is durable. Before, any part of it may be. After a crash a row may be there only if all
  // that was committed before its put() is, too. Must hold: nothing is put any more. Errors likewise.
  virtual Result<void> finish() = 0;
  // As of its return no table comes any more: what was put and is in none never will be.
  virtual void abandon() = 0;
};

class BlobReader {
 public:
  virtual ~BlobReader() = default;
  virtual std::uint64_t blocks() const = 0;
  virtual std::size_t memory() const = 0;  // bytes that it takes, which never change
  // Fills `to`, of whole blocks, from one on. Without a copy if it is aligned to a block. Errors: EUCLEAN (damaged), EIO, EINVAL.
  virtual Result<void> read(std::uint64_t block, MutableBytes to) const = 0;
};

struct StoreOptions {
  ByteCount cache{256 * MiB};  // memory for table blocks, index and filters, write buffers
  bool read_only = false;      // replays the log in memory only and writes nothing
  std::optional<ByteCount> as_if;  // sizes are planned, and room() is told, as if the volume had so much for tables
  std::function<void(std::string_view)> notice = [](std::string_view) {};  // warnings, one line each
  Clock* clock = &system_clock();  // by which the store waits, and by which RocksDB's threads sleep
  // For notices: what rows in such a range are about.
  std::function<std::string(const LostRange&)> describe = [](const LostRange&) { return std::string("some rows"); };
};

struct StoreStats {
  struct Level {
    int level = 0;
    std::uint64_t files = 0;
    ByteCount bytes;
  };
  std::vector<Level> levels;        // both families together, the empty ones left out
  std::uint64_t raw_bytes = 0;      // keys and values in the tables before compression
  std::uint64_t table_bytes = 0;    // the tables as stored
  std::uint64_t memtable_bytes = 0; // written, not yet in tables
  std::uint64_t cache_bytes = 0;    // in the block cache now
  std::uint64_t blob_bytes = 0;     // that blobs take of the volume
};

struct CacheCounts {
  std::uint64_t hits = 0, misses = 0;
};
// What a store has done since it was opened, and what it has to do; cheap enough to be asked for each second. Times in ns.
struct StoreActivity {
  std::uint64_t commits = 0, committed_bytes = 0;  // batches; without what is in blobs
  std::uint64_t stream_bytes = 0;                  // data that went to blobs
  std::uint64_t syncs = 0;                         // of the log, each for all who waited for one
  std::uint64_t flushes = 0, compactions = 0, compaction_ns = 0;  // that ended well; moves of tables are none
  std::uint64_t stalls = 0, stall_ns = 0;          // commits that had to wait for flushes, merges or space
  std::uint64_t delays = 0, delay_ns = 0;          // commits that were slowed down, lest they would have to
  CacheCounts data, indexes;  // blocks of tables that requests looked for; filters are with the indexes

  // Now.
  std::uint64_t memtable_bytes = 0, cache_bytes = 0;
  std::uint64_t debt_bytes = 0;                    // that compactions still have to write, as RocksDB estimates it
  std::uint64_t level0_tables = 0, tables = 0, table_bytes = 0, blob_bytes = 0;  // of the volume
  std::uint64_t wanted_bytes = 0;                  // of the volume, by what is not obsolete in them, as far as that is known
  std::uint64_t total_bytes = 0, reserve_bytes = 0;  // of the volume; what of it new data never gets
  std::uint64_t lost_ranges = 0;                   // of rows, with damaged parts of tables
  std::uint64_t starved = 0;                       // 1: a compaction has found no space
  std::uint64_t failed = 0;                        // 1: nothing is written any more
};

// What Store::repair() did.
struct StoreRepair {
  // Rows of a family whose keys lie between two that are still there; "": from the first, or to the last.
  struct Lost {
    Family family;
    std::string after, before;
    bool aged = false;  // other tables have rows there, some of which may be as they were at an earlier time
  };
  std::vector<std::string> lines;
  std::vector<Lost> lost;
};

// How far a scrub of a store has come. It may come from a stranger: any values are safe.
struct ScrubPosition {
  // The volume, and each family's tables, which are the store's; and blobs, of which only its caller knows up to where they are read.
  static constexpr std::uint64_t kStoreParts = 3, kParts = 4;
  std::uint64_t part = 0;
  ScrubRange range;  // of its files
  bool done() const { return part >= kParts; }
};
// What one step of it did: a ScrubStep, whose damage may concern rows.
struct StoreScrubStep {
  struct Rows {
    Family family;
    std::string after, before;  // their keys lie between two of rows that can be read; "": from the first, or to the last
  };
  struct Damage {
    std::string line;
    std::optional<Rows> rows;
  };
  ByteCount read, left;
  std::vector<Damage> damage;
  std::uint64_t damaged_table = 0;  // the store's own number of it; 0: none is
};

// What a reader of rows in their order needs of a store.
class RowReader {
 public:
  virtual ~RowReader() = default;
  virtual std::unique_ptr<Cursor> cursor(Family family, const CursorOptions& options) = 0;
};

// Its destructor is like a crash: what was not synced may be lost.
class Store : public RowReader {
 public:
  // Makes a store that can be opened and read as a whole from one that cannot: tables of which a part is damaged give
  // way to others with all that can be read; when the list of tables is damaged, it is made again from them. Writes
  // nothing when nothing is wrong. Ended early, it can be begun again. Errors: EUCLEAN (beyond repair), EPROTONOSUPPORT
  // (of a newer RocksDB, see open(): left alone), EIO, ENOMEM, ENOSPC, EROFS.
  static Result<StoreRepair> repair(Volume& volume, const StoreOptions& options);

  // Makes the store if the volume holds none. `volume` must outlive it.
  // Errors: EUCLEAN (damaged), EPROTONOSUPPORT (last used by a newer RocksDB, and this one cannot read it), EIO, ENOMEM, ENOSPC.
  static Result<std::unique_ptr<Store>> open(Volume& volume, const StoreOptions& options);

  // Errors, also of a cursor's status: EAGAIN (Wait::no), EUCLEAN (damaged, or lost), EIO, ENOMEM.
  virtual Result<std::optional<std::string>> get(Family family, std::string_view key, Wait wait) = 0;
  // May have to wait for the device: also one that finds its memtable full begins a new log, when all of the last one is durable.
  // The batch may be cleared and used again.
  virtual Result<void> commit(Batch& batch) = 0;
  // Must hold: a commit has failed. Nothing is written any more, but reads give the batch's rows, too,
  // as long as the store is open: the caller had promised them. In the order of calls.
  virtual void keep_in_memory(const Batch& batch) = 0;
  // All commits that returned before the call are durable when this returns. Callers at the same
  // time share one device flush.
  virtual Result<void> sync() = 0;
  // Volume::note_synced().
  virtual Result<void> note_synced() = 0;
  // Writes what is in memory to tables and waits for it (before unmounting: a fast next mount).
  virtual Result<void> flush() = 0;
  // flush(), and then forgets all cached table blocks that nobody is using: what is read next comes from the device.
  virtual Result<void> drop_caches() = 0;
  // So much memory of the caller's counts against the cache, which makes room for it, but for no more than a quarter of itself.
  virtual void share_cache(ByteCount taken) = 0;
  virtual ByteCount cache_share() const = 0;  // that quarter
  // Reads all of a family's tables, indexes and filters included, and verifies every checksum. One line for each table
  // that is damaged. `progress` hears of the bytes of each. Errors: EIO (a read failed).
  virtual Result<std::vector<std::string>> verify(Family family, const std::function<void(ByteCount)>& progress = {}) = 0;
  // Volume::scrub(), and then, one at each call, all tables that were there when it came to their family: every block with
  // indexes, filters and footers, from the device, whatever is cached. A table that has gone meanwhile is not damaged. Must hold: the
  // position is in one of its parts.
  virtual Result<StoreScrubStep> scrub(ScrubPosition& position, const Stop& stop) = 0;
  // Rewrites [from, to) of a family so that erased rows give back their space. Errors: ENOSPC: there was not enough for that;
  // everything else goes on.
  virtual Result<void> compact(Family family, std::string_view from, std::string_view to) = 0;
  // Volume::trim(). EROFS when the store is open for reading only.
  virtual Result<ByteCount> trim(const TrimRange& range, const Stop& stop) = 0;

  // Read-only from now on: all is durable and in tables when this returns, commits fail with EROFS, and the volume is
  // not written any more, not even in the background or by close(). Or that no more. Must hold: no commit is under way.
  // Errors: EROFS (no more, but it was opened read-only), those of sync().
  virtual Result<void> set_read_only(bool read_only) = 0;

  // ---- blobs. Numbers are never used again.
  // With space for so many bytes of data, which room() does not have any more, nor as much as the largest blob takes again: for rows
  // beside it, that are made of what it holds. Errors: ENOSPC, which stops nothing; as commits.
  virtual Result<std::unique_ptr<BlobWriter>> create_blob(std::uint64_t number, ByteCount data) = 0;
  // ENOENT, EUCLEAN (its index is damaged), EIO. Stays readable when the blob is removed.
  virtual Result<std::unique_ptr<BlobReader>> open_blob(std::uint64_t number, const BlobEnd& end) = 0;
  // Must hold: it is durable that no row names them, or none ever did. Their space is back when it returns. Those that are not there are
  // passed over. Errors: as commits.
  virtual Result<void> remove_blobs(const std::vector<std::uint64_t>& numbers) = 0;
  virtual std::vector<std::uint64_t> blobs() const = 0;  // the numbers of all, ascending

  // nullptr: there are as many as there may be at once.
  virtual std::unique_ptr<BulkWriter> bulk_writer() = 0;

  // Waits for what runs in the background, syncs, and closes; only the destructor may follow.
  virtual Result<void> close() = 0;

  // How many rows family blocks has now, as its caller counts them; each batch that changes that says it, too. A store cannot
  // tell what is obsolete without it, since changes are blind, and counts all that it holds as wanted.
  virtual void note_rows(std::uint64_t rows) = 0;
  // Bytes for which there is space beside what is committed.
  struct Room : ByteCount {
    // How many rows of family blocks that is, as its last commit has said (note_rows). A commit may end at any moment, so only this
    // number tells which of a caller's rows are still to be counted.
    std::uint64_t rows = 0;
  };
  // Of file data that cannot be compressed, in rows that are new; 0: the store is full. As many rows
  // as were removed since it was nearly full find it again. Cheap: called for each write.
  virtual Room room() const = 0;
  // Likewise of names, for which there is a little more.
  virtual Room room_for_names() const = 0;
  // Likewise of rows that replace others. They use it up only as far as they compress worse than those.
  virtual Room room_to_replace() const = 0;
  // What df tells: of an empty store, and now. That is room(), but for rows that only have been removed, unless little is left.
  struct Space {
    ByteCount total, free;
  };
  virtual Space space() const = 0;
  // Volume::grow(). room() knows of it at once; other sizes are planned anew when the store is opened.
  virtual Result<void> grow(std::optional<ByteCount> size) = 0;
  // With less space for tables (VolumeUsage::table_total) the volume would have no room for what is wanted of all that is committed.
  virtual ByteCount least_tables() const = 0;
  // Whether its tables would have the sizes that are planned then, and what is obsolete would have room, too. If not: close it, open it
  // as_if it had so much, and compact all.
  virtual bool suits(ByteCount tables) const = 0;
  virtual StoreStats stats() const = 0;
  virtual StoreActivity activity() const = 0;

  // A damaged part of a table is set aside soon after somebody has met it: what it held is lost, everything else goes on. Reads of
  // what is lost fail with EUCLEAN until a batch knows it again; so they do after a restart.
  virtual std::vector<LostRange> lost() const = 0;
  virtual bool is_lost(Family family, std::string_view from, std::string_view to) const = 0;  // some of it
  virtual bool has_lost() const = 0;  // there may be some; cheap
  virtual std::uint64_t losses() const = 0;  // how often something was lost since the store was opened
};

std::vector<Library> kv_libraries();

}  // namespace lsmfs
