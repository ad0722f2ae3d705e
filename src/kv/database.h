// kv/database: RocksDB opened on a volume, with its options and what these refer to.
//
// What it is not: it commits, syncs and keeps nothing; that is the store's and the repair's own. Not thread-safe.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>

#include <memory>
#include <vector>

#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/merges.h"
#include "kv/options.h"
#include "kv/set_aside.h"
#include "kv/sizing.h"
#include "lsmfs/clock.h"

namespace lsmfs::kv {

class Database {
 public:
  struct Options {
    bool create = false;
    std::shared_ptr<rocksdb::EventListener> listener;
    std::function<void(std::string_view)> notice;
    Clock* clock = &system_clock();
    std::shared_ptr<Merges> merges = nullptr;  // which compactions may run beside each other; nothing: all
    std::shared_ptr<rocksdb::Statistics> statistics = nullptr;
  };
  // All references must outlive it. Opens nothing yet.
  Database(Volume& volume, const Sizing& sizing, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside, const Options& options);
  ~Database() { close().PermitUncheckedError(); }

  // Errors: EUCLEAN whatever RocksDB finds wrong with its own files; EIO, ENOMEM, ENOSPC, EROFS.
  Result<void> open(bool read_only);
  // Flushes nothing. Gives the database's last word.
  rocksdb::Status close();

  rocksdb::DB& db() const { return *db_; }
  bool is_open() const { return db_ != nullptr; }
  using Handles = rocksdb::ColumnFamilyHandle* [2];  // by Family
  const Handles& handles() const { return handles_; }
  rocksdb::ColumnFamilyHandle* handle(Family family) const { return handles_[static_cast<int>(family)]; }
  Caches& caches() { return caches_; }
  const Caches& caches() const { return caches_; }
  // May be changed before open().
  rocksdb::DBOptions& options() { return options_; }
  std::vector<rocksdb::ColumnFamilyDescriptor>& families() { return families_; }

 private:
  Volume& volume_;
  Caches caches_;
  const std::unique_ptr<rocksdb::Env> env_;
  rocksdb::DBOptions options_;
  std::vector<rocksdb::ColumnFamilyDescriptor> families_;  // by Family
  std::unique_ptr<rocksdb::DB> db_;
  Handles handles_ = {};
};

// Whether RocksDB does something in the background, or is about to.
bool is_busy(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
bool is_flushing(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);
// Whether it has begun something there, however slowly that goes on.
bool is_running(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]);

// How files begin in which a repair saves rows, until it is done.
inline constexpr std::string_view kSavedRows = "repaired-";

// Whether the volume holds a database. EUCLEAN: only a part of one is left, or a repair of it has not come to its end.
Result<bool> holds_database(const Volume& volume);

}  // namespace lsmfs::kv
