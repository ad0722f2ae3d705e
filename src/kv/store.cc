#include "kv/store.h"

#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/table_properties.h>
#include <rocksdb/version.h>

#include <algorithm>
#include <map>
#include <new>
#include <stdexcept>
#include <utility>

#include "kv/batch.h"
#include "kv/cursor.h"
#include "kv/file_system.h"
#include "kv/memory_only.h"
#include "kv/notice_logger.h"
#include "kv/options.h"
#include "kv/status.h"
#include "kv/verify.h"

namespace lsmfs {

using kv::to_error;
using rocksdb::Slice;
using rocksdb::Status;

// Hears of background errors and of tables that come and go. RocksDB calls it from its threads.
class RocksStore::Listener final : public rocksdb::EventListener {
 public:
  Listener(kv::FailStop& fail_stop, kv::SpaceGauge& space) : fail_stop_(fail_stop), space_(space) {}

  // Both in the thread that does it.
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { kv::GiveWay::set_compacting(true); }

  void OnBackgroundError(rocksdb::BackgroundErrorReason, Status* error) override {
    fail_stop_.set(to_error(*error, "background work"));
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { space_.tables_changed(); }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override {
    kv::GiveWay::set_compacting(false);
    space_.tables_changed();
  }

 private:
  kv::FailStop& fail_stop_;
  kv::SpaceGauge& space_;
};

namespace {

// A store without its CURRENT file must not be taken for a new one: RocksDB would make an empty
// database and remove every table as unknown. What a crash in the middle of the first open leaves
// has neither tables nor logs.
Result<bool> holds_store(const Volume& volume) {
  if (volume.exists("CURRENT")) return true;
  for (const std::string& name : volume.list()) {
    if (name.ends_with(".sst") || name.ends_with(".log")) {
      return make_error(EUCLEAN, "store: the file CURRENT is missing, but there is " + name);
    }
  }
  return false;
}

Status open_database(const rocksdb::DBOptions& options,
                     const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool read_only,
                     std::vector<rocksdb::ColumnFamilyHandle*>& handles, std::unique_ptr<rocksdb::DB>& db) {
#if ROCKSDB_MAJOR >= 11
  return read_only ? rocksdb::DB::OpenForReadOnly(options, kv::kDirectory, families, &handles, &db)
                   : rocksdb::DB::Open(options, kv::kDirectory, families, &handles, &db);
#else
  rocksdb::DB* raw = nullptr;
  Status status = read_only ? rocksdb::DB::OpenForReadOnly(options, kv::kDirectory, families, &handles, &raw)
                            : rocksdb::DB::Open(options, kv::kDirectory, families, &handles, &raw);
  db.reset(raw);
  return status;
#endif
}

Error open_error(const Status& status) {
  Error error = to_error(status, "open the store");
  // Whatever else RocksDB finds wrong while it opens its own files is damage to them.
  if (error.code != EIO && error.code != ENOMEM && error.code != ENOSPC && error.code != EROFS) error.code = EUCLEAN;
  return error;
}

}  // namespace

RocksStore::RocksStore(Volume& volume, const StoreOptions& options)
    : volume_(volume),
      options_(options),
      read_only_(options.read_only),
      sizing_(kv::Sizing::plan(volume.usage(), options.cache)),
      fail_stop_(options.notice),
      // What a user deletes should come back before it is a few per cent of the volume.
      keeper_(fail_stop_, std::clamp(sizing_.total / 64, 2 * MiB, GiB), [this] { reclaimed(); }),
      space_(volume, sizing_, fail_stop_, give_way_, [this] { keeper_.want_flush(); }) {}

Result<void> RocksStore::open() {
  if (!options_.read_only && !volume_.writable()) return make_error(EROFS, "store: the volume is read-only");
  LSMFS_ASSIGN(const bool exists, holds_store(volume_));
  if (!exists && options_.read_only) return make_error(EUCLEAN, "store: the volume holds none");

  cache_ = kv::make_cache(sizing_);
  env_ = rocksdb::NewCompositeEnv(
      kv::make_file_system(volume_, fail_stop_, give_way_, ByteCount{sizing_.blocks_memtable + sizing_.blocks_memtable / 16}));
  const kv::OptionParts parts{env_.get(), kv::make_notice_logger(options_.notice),
                              std::make_shared<Listener>(fail_stop_, space_), cache_};
  const rocksdb::DBOptions db_options = kv::db_options(sizing_, parts, !exists);
  const std::vector<rocksdb::ColumnFamilyDescriptor> families = {
      {kv::kNamesFamily, kv::family_options(Family::names, sizing_, parts)},
      {kv::kBlocksFamily, kv::family_options(Family::blocks, sizing_, parts)},
  };

  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  Status status;
  // RocksDB decodes files that may be damaged; a length it believes must not end the process.
  try {
    status = open_database(db_options, families, options_.read_only, handles, db_);
  } catch (const std::bad_alloc&) {
    return make_error(ENOMEM, "open the store");
  } catch (const std::length_error&) {
    return make_error(EUCLEAN, "open the store: a file holds an impossible length");
  }
  std::copy(handles.begin(), handles.end(), std::begin(handles_));
  // A log that could not be read looks to RocksDB like one that ends there.
  LSMFS_TRY(check());
  if (!status.ok()) return open_error(status);
  for (const Family family : {Family::names, Family::blocks}) {
    if (handle(family)->GetID() != kv::family_number(family)) {
      return make_error(EUCLEAN, "open the store: its families are not those of an lsmfs");
    }
  }

  space_.start(db_.get(), handles_);
  if (!options_.read_only) keeper_.start(db_.get(), handles_);
  return {};
}

RocksStore::~RocksStore() {
  const kv::GiveWay::Hurry hurry(give_way_);
  keeper_.stop();
  if (!db_) return;
  for (auto* handle : handles_) {
    if (handle != nullptr) db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  db_.reset();
}

Result<void> RocksStore::check() const {
  if (auto error = fail_stop_.error()) return std::move(*error);
  return {};
}

Error RocksStore::failure(const Status& status, std::string_view what) {
  if (auto error = fail_stop_.error()) return std::move(*error);
  return to_error(status, what);
}

Result<std::optional<std::string>> RocksStore::get(Family family, std::string_view key, Wait wait) {
  const std::uint64_t read_failures = fail_stop_.read_failures();
  std::string value;
  const kv::MemoryOnly scope(wait == Wait::no);
  const Status status = db_->Get(kv::read_options(), handle(family), Slice(key.data(), key.size()), &value);
  if (scope.refused()) return make_error(EAGAIN, "get");
  if (read_failures != fail_stop_.read_failures()) return make_error(EIO, "get: a read of the device failed");
  if (!status.ok() && !status.IsNotFound()) return to_error(status, "get");
  return overlay_.over(family, key, status.ok() ? std::optional<std::string>(std::move(value)) : std::nullopt);
}

std::unique_ptr<Cursor> RocksStore::cursor(Family family, const CursorOptions& options) {
  return overlay_.over(family, kv::make_cursor(*db_, handle(family), options, fail_stop_), options);
}

Result<void> RocksStore::commit(Batch& batch, Wait wait) {
  if (read_only_) return make_error(EROFS, "commit: the store is open for reading only");
  LSMFS_TRY(check());
  if (batch.empty()) return {};
  LSMFS_TRY(space_.admit(batch.bytes(), wait));

  if (!batch.rep_->status.ok()) return to_error(batch.rep_->status, "commit");
  const Status status = db_->Write(kv::write_options(wait), &batch.rep_->out);
  // The log pretends success after an error: look before believing it (kv/file_system.h).
  LSMFS_TRY(check());
  if (!status.ok()) {
    Error error = to_error(status, "commit");
    if (error.code != EAGAIN || wait == Wait::yes) fail_stop_.set(error);
    return error;
  }
  committed_.fetch_add(1, std::memory_order_acq_rel);
  keeper_.note_ranges(batch.rep_->ranges);
  for (const Family family : {Family::names, Family::blocks}) {
    keeper_.note_rows(family, batch.rep_->erased[kv::family_number(family)]);
  }
  return {};
}

void RocksStore::keep_in_memory(const Batch& batch) { overlay_.add(batch.rep_->out); }

Result<void> RocksStore::sync() {
  if (read_only_) return {};
  const Waiting waiting("a sync of the log");
  const std::uint64_t wanted = committed_.load(std::memory_order_acquire);
  std::unique_lock lock(sync_mutex_);
  while (true) {
    LSMFS_TRY(check());
    if (synced_ >= wanted) return {};
    if (!syncing_) break;
    sync_done_.wait(lock);
  }
  // This caller syncs for all who wait by then.
  syncing_ = true;
  lock.unlock();
  const std::uint64_t covered = committed_.load(std::memory_order_acquire);
  const Status status = db_->SyncWAL();
  if (!status.ok()) fail_stop_.set(to_error(status, "sync"));
  space_.count_log_block();
  lock.lock();
  syncing_ = false;
  if (!fail_stop_.failed()) synced_ = std::max(synced_, covered);
  lock.unlock();
  sync_done_.notify_all();
  return check();
}

Result<void> RocksStore::flush() {
  if (read_only_) return {};
  LSMFS_TRY(check());
  const Waiting waiting("a flush of what is in memory");
  rocksdb::FlushOptions flush;
  flush.wait = true;
  flush.allow_write_stall = true;  // a flush is what ends a stall
  const Status status = db_->Flush(flush, {handles_[0], handles_[1]});
  LSMFS_TRY(check());
  space_.refresh();
  return kv::to_result(status, "flush");
}

Result<void> RocksStore::drop_caches() {
  LSMFS_TRY(flush());
  kv::empty_cache(*cache_);
  return {};
}

Result<std::vector<std::string>> RocksStore::verify(Family family, const std::function<void(ByteCount)>& progress) {
  return kv::damaged_tables(*db_, handle(family), fail_stop_, progress);
}

Result<void> RocksStore::compact(Family family, std::string_view from, std::string_view to) {
  if (read_only_) return make_error(EROFS, "compact: the store is open for reading only");
  LSMFS_TRY(check());
  const Slice first(from.data(), from.size()), last(to.data(), to.size());
  const Status status = db_->CompactRange(kv::compact_options(), handle(family), from.empty() ? nullptr : &first,
                                          to.empty() ? nullptr : &last);
  LSMFS_TRY(check());
  if (!status.ok()) return to_error(status, "compact");
  reclaimed();
  return check();
}

Result<ByteCount> RocksStore::trim(const TrimRange& range, const Stop& stop) {
  if (read_only_) return make_error(EROFS, "trim: the store is open for reading only");
  LSMFS_TRY(check());
  // Tables that a compaction replaced are removed at its end already.
  return volume_.trim(range, stop);
}

void RocksStore::reclaimed() {
  // The space of the tables that are gone returns when that is durable.
  if (auto done = volume_.commit(); !done) fail_stop_.set(done.error());
  space_.tables_changed();
  space_.refresh();
}

Result<void> RocksStore::settle() {
  if (!fail_stop_.failed()) keeper_.finish(space_.room().v < space_.total().v / 4);
  keeper_.stop();
  LSMFS_TRY(flush());
  return sync();
}

Result<void> RocksStore::set_read_only(bool read_only) {
  const kv::GiveWay::Hurry hurry(give_way_);
  if (read_only == read_only_) return {};
  if (options_.read_only) return make_error(EROFS, "the store was opened for reading only");
  LSMFS_TRY(check());
  if (!read_only) {
    read_only_ = false;
    if (const Status status = db_->ContinueBackgroundWork(); !status.ok()) return to_error(status, "continue");
    keeper_.start(db_.get(), handles_);
    return {};
  }
  LSMFS_TRY(settle());
  // Waits for the compactions that run.
  if (const Status status = db_->PauseBackgroundWork(); !status.ok()) return to_error(status, "pause");
  read_only_ = true;
  if (auto done = volume_.commit(); !done) fail_stop_.set(done.error());
  return check();
}

Result<void> RocksStore::close() {
  const kv::GiveWay::Hurry hurry(give_way_);
  Result<void> result;
  if (!read_only_) result = settle();
  keeper_.stop();
  rocksdb::CancelAllBackgroundWork(db_.get(), /*wait=*/true);
  for (auto*& handle : handles_) db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr)).PermitUncheckedError();
  const Status status = db_->Close();
  db_.reset();
  if (read_only_) return {};
  if (result) result = check();
  if (result) result = kv::to_result(status, "close");
  if (result) result = volume_.commit();
  return result;
}

Store::Space RocksStore::space() const {
  const std::uint64_t total = space_.total().v;
  return {ByteCount{total}, ByteCount{std::min(space_.room().v, total)}};
}

StoreStats RocksStore::stats() const {
  StoreStats stats;
  std::map<int, StoreStats::Level> levels;
  for (auto* handle : handles_) {
    rocksdb::ColumnFamilyMetaData facts;
    db_->GetColumnFamilyMetaData(handle, &facts);
    for (const auto& level : facts.levels) {
      if (level.files.empty()) continue;
      StoreStats::Level& sum = levels[level.level];
      sum.level = level.level;
      sum.files += level.files.size();
      sum.bytes.v += level.size;
      stats.table_bytes += level.size;
    }
    rocksdb::TablePropertiesCollection properties;
    if (db_->GetPropertiesOfAllTables(handle, &properties).ok()) {
      for (const auto& [name, table] : properties) stats.raw_bytes += table->raw_key_size + table->raw_value_size;
    }
    std::uint64_t memtables = 0;
    if (db_->GetIntProperty(handle, rocksdb::DB::Properties::kCurSizeAllMemTables, &memtables)) {
      stats.memtable_bytes += memtables;
    }
  }
  for (const auto& [number, level] : levels) stats.levels.push_back(level);
  stats.cache_bytes = kv::cache_usage(*cache_);
  return stats;
}

Result<std::unique_ptr<Store>> Store::open(Volume& volume, const StoreOptions& options) {
  auto store = std::make_unique<RocksStore>(volume, options);
  LSMFS_TRY(store->open());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace lsmfs
