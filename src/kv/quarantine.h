// kv/quarantine: sets damaged blocks of tables aside, so that damage stays where it is.
//
// Whoever meets one (a reader, a compaction, a scrub) reports it. A thread then reads the table apart from the database, finds all
// of its damaged blocks and between which rows they lie, and in one commit writes down that this is lost (kv/lost), but for
// what newer tables or the memory hold. When that is durable the table files give empty blocks in their place (kv/set_aside), so that
// compactions pass, and the table is merged into others that are whole.
//
// A damaged index costs all of a table's rows, unless it is in memory. A filter, the table's properties or its footer cost none: RocksDB has
// read them. But a table without these can only be read through the database, which tells no more than where the first damage lies. So of
// one whose blocks are damaged, too, all rows from there on are lost.
// What is set aside is written down, too, so that it stays so after a restart.
// A device may fail for a while. So what cannot be read is looked at several times, some seconds apart, before it counts as damaged, and only
// while most of its table can be read.
// What it cannot make sense of stops all writing (FailStop), as damage did that RocksDB's compactions met.
//
// Threads: all functions, from any thread; report() does not block, stop() waits. It has a thread from the first report on.
#pragma once

#include <rocksdb/db.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kv/fail_stop.h"
#include "kv/lost.h"
#include "kv/set_aside.h"
#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class Quarantine {
 public:
  struct Parts {
    Volume& volume;
    FailStop& fail_stop;
    SetAside& set_aside;
    LostRanges& lost;
    Mutex& commits;                        // held while a commit is written
    std::function<Result<void>()> sync;    // makes all commits durable
    std::function<void(std::string_view)> notice;
    std::function<std::string(const LostRange&)> describe;
    std::uint64_t piece;                   // see compact_in_pieces()
    Clock& clock;                          // by which it waits
  };
  explicit Quarantine(Parts parts) : parts_(std::move(parts)) {}
  ~Quarantine() { stop(); }

  // What a database that has been opened says is set aside.
  rocksdb::Status load(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
  // Reports are taken from now on.
  void start();
  void stop();

  // Of an error that RocksDB gave. False: it is not that of a damaged block, or that block is set aside already: it will not go away.
  bool report(const rocksdb::Status& status);
  void report_table(std::uint64_t number);
  bool idle() const;  // nothing is under way
  void finish();      // waits until that is so

 private:
  // What is wrong with a table. `ranges`: where its rows are lost.
  struct Damage {
    std::vector<TableBlock> blocks;
    std::vector<std::pair<std::string, std::string>> ranges;
  };

  bool is_idle() const LSMFS_REQUIRES(mutex_) { return !takes_ || (reported_.empty() && !busy_) || parts_.fail_stop.failed(); }
  class Examination;

  // Looks at a table until it is known what is wrong with it.
  Result<Damage> examine(Family family, const rocksdb::SstFileMetaData& table, const std::vector<TableBlock>& known);
  void begin() LSMFS_REQUIRES(mutex_);  // its thread
  void run();
  Result<void> handle(std::uint64_t number);
  // Takes from the ranges what rows are newer than the table's. False: the table has gone.
  Result<bool> keep_newer(Family family, const rocksdb::SstFileMetaData& table, LostRanges::Ranges& ranges) const
      LSMFS_REQUIRES(parts_.commits);
  // What the database meets in a table after all that could be found apart from it. From there on all counts as lost.
  Result<void> set_rest_aside(Family family, const rocksdb::SstFileMetaData& table, std::vector<LostRange>& lost);
  Result<bool> write_down(Family family, const rocksdb::SstFileMetaData& table, const Damage& damage, std::vector<LostRange>& lost);
  void forget_gone();  // tables
  void tell(const rocksdb::SstFileMetaData& table, const std::vector<LostRange>& lost) const;
  rocksdb::ColumnFamilyHandle* handle_of(Family family) const { return handles_[family_number(family)]; }

  const Parts parts_;
  rocksdb::DB* db_ = nullptr;
  rocksdb::ColumnFamilyHandle* handles_[2] = {};

  mutable Mutex mutex_;
  std::condition_variable wake_, idle_;
  std::set<std::uint64_t> reported_ LSMFS_GUARDED_BY(mutex_);  // tables
  bool takes_ LSMFS_GUARDED_BY(mutex_) = false, busy_ LSMFS_GUARDED_BY(mutex_) = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_ LSMFS_GUARDED_BY(mutex_);
};

// Where the rows begin that say which blocks are set aside, in family names: be64 table, be64 offset after it, varint size in the value.
inline constexpr std::string_view kSetAsidePrefix = "/l\2";

}  // namespace lsmfs::kv
