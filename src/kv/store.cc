#include "kv/store.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/listener.h>
#include <rocksdb/table_properties.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "kv/batch.h"
#include "kv/bulk.h"
#include "kv/compact.h"
#include "kv/cursor.h"
#include "kv/guarded.h"
#include "kv/library_bytes.h"
#include "kv/memory_only.h"
#include "kv/options.h"
#include "kv/scrub.h"
#include "kv/status.h"
#include "kv/verify.h"

namespace lsmfs {

using kv::to_error;

static_assert(std::size(kv::kFamilies) == ScrubPosition::kStoreParts - 1);  // a scrub takes them in that order, after the volume

using rocksdb::Slice;
using rocksdb::Status;

// `tables`: as if the volume had so much for them.
kv::Sizing planned_for(const Volume& volume, std::optional<ByteCount> tables, ByteCount cache) {
  VolumeUsage usage = volume.usage();
  usage.table_total = tables.value_or(usage.table_total);
  return kv::Sizing::plan(usage, cache);
}

// Each takes up to twice its window of memory, beside what the cache may take.
constexpr int kBulkWritersMost = 2;
constexpr std::uint64_t kBulkWindow = 4 * MiB;

// Tables that a crash has left before the database took them in.
Result<void> drop_bulk(Volume& volume) {
  for (const std::string& name : volume.list()) {
    if (name.starts_with(kv::kBulkPrefix)) LSMFS_TRY(volume.remove(name));
  }
  return {};
}

// Hears of background errors and of tables that come and go. RocksDB calls it from its threads.
class RocksStore::Listener final : public rocksdb::EventListener {
 public:
  Listener(kv::FailStop& fail_stop, kv::Merges& merges, kv::SpaceGauge& space, kv::Keeper& keeper, kv::Quarantine& quarantine, Done& done)
      : fail_stop_(fail_stop), merges_(merges), space_(space), keeper_(keeper), quarantine_(quarantine), done_(done) {}

  // Those of a flush and a compaction are called in the thread that does it. RocksDB itself names its threads in a way that the
  // daemon's filter of system calls does not let pass.
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    if (info.compaction_reason != rocksdb::CompactionReason::kUnknown) name_thread("lsmfs-compact");  // else it is the keeper's
    merges_.chosen(bytes_of(info));
    if (!asked_for(info)) space_.compaction_begins();
    kv::GiveWay::set_compacting(true);
  }

  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, Status* error) override {
    // Nothing has been lost, and it begins again.
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && found_no_space(*error)) return;
    // It has changed nothing, and begins again: as often as it takes until the damaged block is set aside.
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && quarantine_.report(*error)) {
      *error = Status::OK();
      return;
    }
    fail_stop_.set(to_error(*error, "background work"));
  }
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, Status, bool* auto_recovery) override {
    *auto_recovery = false;
  }
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    name_thread("lsmfs-flush");
    IoFor::all_of_this_thread(IoCause::flush);
    space_.flush_begins(family_of(info));
  }
  void OnFlushCompleted(rocksdb::DB*, const rocksdb::FlushJobInfo& info) override {
    space_.flush_ended(family_of(info), info.table_properties.raw_key_size + info.table_properties.raw_value_size, info.largest_seqno);
    keeper_.tables_changed();
    ++done_.flushes;
    if (family_of(info) == Family::blocks && ++flushes_ % kFlushesUntilTrim == 0) keeper_.want_less_memory();
  }
  void OnCompactionCompleted(rocksdb::DB*, const rocksdb::CompactionJobInfo& info) override {
    kv::GiveWay::set_compacting(false);
    const bool wrote = info.stats.total_input_bytes > 0;  // else it has only moved tables to another level
    merges_.ended(wrote && info.status.ok());
    if (!info.status.ok()) {
      if (found_no_space(info.status) && !asked_for(info)) space_.compaction_starved();
      return;
    }
    if (wrote) {
      ++done_.compactions;
      done_.compaction_ns += info.stats.elapsed_micros * 1000;
      space_.compaction_succeeded(info.stats.total_input_bytes, std::chrono::microseconds(info.stats.elapsed_micros));
    }
    space_.tables_changed();
    keeper_.tables_changed();
    if (space_.has_small_tables()) keeper_.want_fewer_tables();
  }

 private:
  static Family family_of(const rocksdb::FlushJobInfo& info) { return info.cf_name == kv::kBlocksFamily ? Family::blocks : Family::names; }
  // Of the tables that it takes in, as the volume has them.
  static std::uint64_t bytes_of(const rocksdb::CompactionJobInfo& info) {
    std::uint64_t bytes = 0;
    for (const std::string& name : info.input_files) {
      const auto found = info.table_properties.find(name);
      if (found == info.table_properties.end()) continue;
      const auto& table = *found->second;
      bytes += kv::on_volume(table.data_size + table.index_size + table.filter_size);
    }
    return bytes;
  }
  // By kv/files.cc.
  static bool found_no_space(const Status& status) { return status.IsIOError() && status.subcode() == Status::kSpaceLimit; }
  // Whoever did hears how it ended; RocksDB would not do it again.
  static bool asked_for(const rocksdb::CompactionJobInfo& info) {
    return info.compaction_reason == rocksdb::CompactionReason::kManualCompaction ||
           info.compaction_reason == rocksdb::CompactionReason::kUnknown;
  }

  // Memtables grow and go, and the cache makes room for them and fills it again: gaps are left in the heap, which came to half of
  // what the cache may take. To give back whole pages in these takes some 10 ms, more in a large heap: a flush must not wait for that.
  static constexpr unsigned kFlushesUntilTrim = 2;

  kv::FailStop& fail_stop_;
  kv::Merges& merges_;
  kv::SpaceGauge& space_;
  kv::Keeper& keeper_;
  kv::Quarantine& quarantine_;
  Done& done_;
  std::atomic<unsigned> flushes_{0};  // of blocks
};

RocksStore::RocksStore(Volume& volume, const StoreOptions& options, const kv::Sizing& sizing)
    : volume_(volume),
      options_(options),
      read_only_(options.read_only),
      sizing_(sizing),
      fail_stop_(options.notice),
      give_way_(*options.clock),
      merges_(std::make_shared<kv::Merges>(sizing_.merge)),
      // What a user deletes should come back before it is a few per cent of the volume; half of this soon.
      keeper_(fail_stop_, *options.clock, std::clamp(sizing_.total / 64, 2 * MiB, GiB), {sizing_.names_table, sizing_.table},
              [this] { space_.all_flushed(); }, [this] { reclaimed(); }, [this] { return space_.worst(); },
              [this] { space_.measure_tables(); }),
      space_(volume, sizing_, fail_stop_, give_way_, *merges_, blob_space_, *options.clock, [this] { keeper_.want_flush(); },
             [this] { keeper_.want_space(); }, [this](Clock::Time due) { keeper_.measure_at(due); }, options.notice),
      quarantine_({volume, fail_stop_, set_aside_, lost_, commit_mutex_, [this] { ++committed_; return sync(); }, options.notice, options.describe,
                   sizing_.piece, *options.clock}) {}

Result<void> RocksStore::open() {
  if (!options_.read_only && !volume_.writable()) return make_error(EROFS, "store: the volume is read-only");
  LSMFS_ASSIGN(const bool exists, kv::holds_database(volume_));
  if (!exists && options_.read_only) return make_error(EUCLEAN, "store: the volume holds none");
  auto listener = std::make_shared<Listener>(fail_stop_, *merges_, space_, keeper_, quarantine_, done_);
  database_.emplace(volume_, sizing_, fail_stop_, give_way_, set_aside_,
                    kv::Database::Options{!exists, std::move(listener), options_.notice, options_.clock, merges_, ticks_});
  if (!options_.read_only) LSMFS_TRY(drop_bulk(volume_));
  const Result<void> opened = database_->open(options_.read_only);
  // A log that could not be read looks to RocksDB like one that ends there.
  LSMFS_TRY(fail_stop_.check());
  LSMFS_TRY(opened);
  for (const std::uint64_t number : blobs()) {
    LSMFS_ASSIGN(const ByteCount size, volume_.size_of(kv::blob_name(number)));
    blob_space_.set(number, size.v);
  }
  space_.start(&db(), database_->handles());
  LSMFS_TRY(load_damage());
  if (!options_.read_only) keeper_.start(&db(), database_->handles());
  return {};
}

Result<void> RocksStore::load_damage() {
  const auto load = [&] {
    Status status = kv::guarded([&] { return quarantine_.load(db(), database_->handles()); });
    return status.ok() ? kv::guarded([&] { return lost_.load(db(), handle(Family::names)); }) : status;
  };
  Status status = load();
  if (!options_.read_only) quarantine_.start();
  // A block that is damaged where these rows would lie: then some of them may be lost, too.
  while (!status.ok() && !options_.read_only && quarantine_.report(status)) {
    quarantine_.finish();
    LSMFS_TRY(fail_stop_.check());
    status = load();
  }
  if (status.ok()) return {};
  Error error = to_error(status, "read what is known about damage");
  if (!options_.read_only) return error;
  options_.notice(error.message());  // the rest may be saved
  return {};
}

RocksStore::~RocksStore() {
  const kv::GiveWay::Hurry hurry(give_way_);
  keeper_.stop();
  quarantine_.stop();
  space_.end();
  database_.reset();
}

Error RocksStore::failure(const Status& status, std::string_view what) {
  if (auto error = fail_stop_.error()) return std::move(*error);
  return to_error(status, what);
}

Result<std::optional<std::string>> RocksStore::get(Family family, std::string_view key, Wait wait) {
  const std::uint64_t read_failures = fail_stop_.read_failures();
  const auto lost = lost_.view();
  std::string value;
  rocksdb::PinnableSlice found(&value);
  const kv::MemoryOnly scope(wait == Wait::no);
  const Status status =
      kv::guarded([&] { return db().Get(kv::read_options(), handle(family), Slice(key.data(), key.size()), &found); });
  if (scope.refused()) return make_error(EAGAIN, "get");
  if (read_failures != fail_stop_.read_failures()) return make_error(EIO, "get: a read of the device failed");
  if (!status.ok() && !status.IsNotFound()) {
    quarantine_.report(status);
    return to_error(status, "get");
  }
  if (lost_.any() && lost_.meets(lost, family, key, kv::next_key(family, key))) return kv::lost_error();
  if (status.ok() && found.IsPinned()) value = kv::LibraryBytes().of(found);
  return overlay_.over(family, key, status.ok() ? std::optional<std::string>(std::move(value)) : std::nullopt);
}

std::unique_ptr<Cursor> RocksStore::cursor(Family family, const CursorOptions& options) {
  const auto passed = [this, family](std::string_view from, std::string_view to, std::uint64_t rows) {
    if (!read_only_) keeper_.note_passed(family, from, to, rows);
  };
  const auto met = [this](const Status& status) { quarantine_.report(status); };
  return overlay_.over(family, kv::make_cursor(db(), handle(family), family, options, fail_stop_, lost_, passed, met), options);
}

Result<void> RocksStore::commit(Batch& batch) {
  if (read_only_) return make_error(EROFS, "commit: the store is open for reading only");
  LSMFS_TRY(fail_stop_.check());
  if (batch.empty()) return {};
  if (auto admitted = space_.admit(batch.bytes()); !admitted) {
    fail_stop_.set(admitted.error());
    return admitted;
  }

  if (!batch.rep_->status.ok()) return to_error(batch.rep_->status, "commit");
  {
    const MutexLock lock(commit_mutex_);
    auto found = lost_.found_again(batch.rep_->out, batch.rep_->known);
    const Status status = db().Write(kv::write_options(), &batch.rep_->out);
    // The log pretends success after an error: look before believing it (kv/file_system.h).
    LSMFS_TRY(fail_stop_.check());
    if (!status.ok()) {
      Error error = to_error(status, "commit");
      fail_stop_.set(error);
      return error;
    }
    if (found) lost_.install(std::move(*found));
  }
  committed_.fetch_add(1, std::memory_order_acq_rel);
  done_.committed_bytes.fetch_add(batch.bytes(), std::memory_order_relaxed);
  if (batch.rep_->rows) {
    space_.committed(db().GetLatestSequenceNumber(), batch.bytes(), *batch.rep_->rows, batch.rep_->ranges,
                     batch.rep_->erased[kv::family_number(Family::blocks)], static_cast<std::int64_t>(batch.rep_->in_bulk));
  }
  keeper_.note(batch.rep_->ranges, batch.rep_->erased);
  return {};
}

void RocksStore::keep_in_memory(const Batch& batch) { overlay_.add(batch.rep_->out); }

Result<void> RocksStore::sync() {
  if (read_only_) return {};
  const std::uint64_t wanted = committed_.load(std::memory_order_acquire);
  MutexLock lock(sync_mutex_);
  const Waiting waiting("a sync of the log");
  while (true) {
    LSMFS_TRY(fail_stop_.check());
    if (synced_ >= wanted) return {};
    if (!syncing_) break;
    sync_done_.wait(lock);
  }
  // This caller syncs for all who wait by then.
  syncing_ = true;
  lock.unlock();
  const std::uint64_t covered = committed_.load(std::memory_order_acquire);
  const Status status = db().SyncWAL();
  ++done_.syncs;
  if (!status.ok()) fail_stop_.set(to_error(status, "sync"));
  space_.count_log_block();
  lock.lock();
  syncing_ = false;
  if (!fail_stop_.failed()) synced_ = std::max(synced_, covered);
  lock.unlock();
  sync_done_.notify_all();
  return fail_stop_.check();
}

Result<void> RocksStore::note_synced() {
  const SharedLock lock(writing_mutex_);
  if (read_only_) return {};
  LSMFS_TRY(fail_stop_.check());
  auto done = volume_.note_synced();
  if (!done) fail_stop_.set(done.error());
  return done;
}

Result<void> RocksStore::flush() {
  if (read_only_) return {};
  LSMFS_TRY(fail_stop_.check());
  const Waiting waiting("a flush of what is in memory");
  const Status status = db().Flush(kv::flush_options(), {handle(Family::names), handle(Family::blocks)});
  LSMFS_TRY(fail_stop_.check());
  if (status.ok()) space_.all_flushed();
  space_.measure_tables();
  return kv::to_result(status, "flush");
}

Result<void> RocksStore::drop_caches() {
  LSMFS_TRY(flush());
  database_->caches().empty();
  return {};
}

void RocksStore::share_cache(ByteCount taken) {
  // The rest is for blocks, and for memtables, which may come to half of it all.
  database_->caches().set_capacity(sizing_.cache - std::min(taken, cache_share()).v);
}

Result<std::vector<std::string>> RocksStore::verify(Family family, const std::function<void(ByteCount)>& progress) {
  LSMFS_ASSIGN(const auto damaged, kv::damaged_tables(db(), handle(family), fail_stop_, progress));
  std::vector<std::string> lines;
  for (const kv::DamagedTable& table : damaged) lines.push_back(table.line());
  return lines;
}

Result<StoreScrubStep> RocksStore::scrub(ScrubPosition& position, const Stop& stop) {
  const IoFor scrubbing(IoCause::scrub);
  StoreScrubStep step;
  if (position.part >= ScrubPosition::kStoreParts) return step;
  if (position.part == 0) {
    LSMFS_ASSIGN(ScrubStep own, volume_.scrub(position.range, stop));
    step.read = own.read;
    step.left = own.left;
    for (auto& line : own.damage) step.damage.push_back({std::move(line), std::nullopt});
  } else {
    const Family family = kv::kFamilies[position.part - 1];
    LSMFS_ASSIGN(step, kv::scrub_next_table(volume_, db(), handle(family), family, position.range, stop));
    if (step.damaged_table != 0) quarantine_.report_table(step.damaged_table);
    // At the end: a reader may have met damage meanwhile, and its table may have gone before the scrub came to it.
    if (position.range.done()) {
      for (auto& range : lost()) {
        if (range.family == family) step.damage.push_back({"rows are lost with a damaged table", StoreScrubStep::Rows{family, range.from, range.to}});
      }
    }
  }
  if (position.range.done()) position = {position.part + 1, {}};
  // Of a part that has begun the rest is in the step.
  const std::uint64_t next = position.range.end == 0 ? position.part : position.part + 1;
  for (std::uint64_t part = std::max<std::uint64_t>(next, 1); part < ScrubPosition::kStoreParts; ++part) {
    step.left = step.left + kv::table_bytes(db(), handle(kv::kFamilies[part - 1]));
  }
  return step;
}

Result<void> RocksStore::compact(Family family, std::string_view from, std::string_view to) {
  if (read_only_) return make_error(EROFS, "compact: the store is open for reading only");
  LSMFS_TRY(fail_stop_.check());
  const Status status = kv::compact_in_pieces(db(), handle(family), kv::compact_options(), from, to, sizing_.piece);
  LSMFS_TRY(fail_stop_.check());
  if (!status.ok()) return to_error(status, "compact");
  reclaimed();
  return fail_stop_.check();
}

Result<ByteCount> RocksStore::trim(const TrimRange& range, const Stop& stop) {
  const SharedLock lock(writing_mutex_);
  if (read_only_) return make_error(EROFS, "trim: the store is open for reading only");
  LSMFS_TRY(fail_stop_.check());
  // Tables that a compaction replaced are removed at its end already.
  auto trimmed = volume_.trim(range, [&] { return read_only_ || stop(); });
  if (!trimmed && read_only_) return make_error(EROFS, "trim: the store is for reading only from now on");
  // A discard that fails is no loss; a failed write of what has been removed is one.
  if (const auto failure = volume_.failure()) fail_stop_.set(*failure);
  return trimmed;
}

Result<std::unique_ptr<BlobWriter>> RocksStore::create_blob(std::uint64_t number, ByteCount data) {
  if (read_only_) return make_error(EROFS, "create a blob: the store is open for reading only");
  const std::uint64_t bytes = kv::blob_size(data);
  // The volume lists each, and others need their places more.
  const VolumeUsage usage = volume_.usage();
  const bool listed = usage.list_free.v > usage.list_total.v / 2;
  if (!listed || space_.room().v < bytes + kv::BlobSpace::of_rows(bytes)) return make_error(ENOSPC, "create a blob: there is no space for it");
  blob_space_.set(number, bytes);
  auto made = kv::create_blob(volume_, fail_stop_, number, data, [this, number](std::uint64_t taken) {
    blob_space_.resize(number, taken);
    space_.blobs_changed();
  }, done_.stream_bytes);
  if (!made) blob_space_.erase(number);
  space_.blobs_changed();
  return made;
}

Result<void> RocksStore::remove_blobs(const std::vector<std::uint64_t>& numbers) {
  if (read_only_) return make_error(EROFS, "remove blobs: the store is open for reading only");
  LSMFS_TRY(fail_stop_.check());
  const auto remove = [&]() -> Result<void> {
    for (const std::uint64_t number : numbers) {
      if (auto done = volume_.remove(kv::blob_name(number)); !done && done.error().code != ENOENT) return done;
    }
    return volume_.commit();
  };
  if (auto done = remove(); !done) {
    fail_stop_.set(done.error());
    return done;
  }
  for (const std::uint64_t number : numbers) blob_space_.erase(number);
  space_.blobs_changed();
  return {};
}

std::vector<std::uint64_t> RocksStore::blobs() const {
  std::vector<std::uint64_t> numbers;
  for (const std::string& name : volume_.list()) {
    if (const auto number = kv::blob_number(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

std::unique_ptr<BulkWriter> RocksStore::bulk_writer() {
  if (++bulk_writers_ > kBulkWritersMost) {
    --bulk_writers_;
    return nullptr;
  }
  return std::make_unique<kv::Bulk>(kv::Bulk::Parts{
      .options = kv::bulk_options({database_->options(), database_->families()[kv::family_number(Family::blocks)].options}),
      .window = std::min(sizing_.blocks_memtable, kBulkWindow),
      .table = sizing_.table,
      .name = [this] { return fmt::format("{}/{}{:06}", kv::kDirectory, kv::kBulkPrefix, ++bulk_tables_); },
      .admit = [this](std::uint64_t bytes) { return space_.admit(bytes); },
      .take_in = [this](const std::string& path, std::uint64_t rows) { return take_in(path, rows); },
      .drop = [this](const std::string& path) { (void)database_->options().env->DeleteFile(path); },
      .commit = [this](const std::vector<std::pair<std::string, std::string>>& rows) { return commit_few(rows); },
      .ended =
          [this](std::uint64_t left) {
            space_.bulk_taken_in(left);
            --bulk_writers_;
          },
  });
}

Result<void> RocksStore::commit_few(const std::vector<std::pair<std::string, std::string>>& rows) {
  Batch batch;
  for (const auto& [key, value] : rows) batch.put(Family::blocks, key, value);
  LSMFS_TRY(commit(batch));
  space_.bulk_committed(db().GetLatestSequenceNumber(), batch.bytes(), rows.size());
  return sync();
}

Result<void> RocksStore::take_in(const std::string& path, std::uint64_t rows) {
  LSMFS_TRY(sync());  // so after a crash there is no row of what is not
  const SharedLock lock(writing_mutex_);
  if (read_only_) return make_error(EROFS, "take in a table: the store is open for reading only");
  const Status status = kv::guarded([&] { return db().IngestExternalFile(handle(Family::blocks), {path}, kv::ingest_options()); });
  LSMFS_TRY(fail_stop_.check());
  if (!status.ok()) return to_error(status, "take in a table");
  space_.bulk_taken_in(rows);
  keeper_.tables_changed();
  return {};
}

void RocksStore::reclaimed() {
  // The space of the tables that are gone returns when that is durable.
  if (auto done = volume_.commit(); !done) fail_stop_.set(done.error());
  space_.tables_changed();
}

Result<void> RocksStore::settle() {
  if (!fail_stop_.failed() && space_.room().v < space_.space().total.v / 4) keeper_.finish();
  keeper_.stop();
  quarantine_.stop();
  LSMFS_TRY(flush());
  return sync();
}

Result<void> RocksStore::set_read_only(bool read_only) {
  const kv::GiveWay::Hurry hurry(give_way_);
  if (read_only == read_only_) return {};
  if (options_.read_only) return make_error(EROFS, "the store was opened for reading only");
  LSMFS_TRY(fail_stop_.check());
  if (!read_only) {
    read_only_ = false;
    if (const Status status = db().ContinueBackgroundWork(); !status.ok()) return to_error(status, "continue");
    quarantine_.start();
    keeper_.start(&db(), database_->handles());
    return {};
  }
  LSMFS_TRY(settle());
  {
    const Waiting waiting("compactions that run");
    if (const Status status = db().PauseBackgroundWork(); !status.ok()) return to_error(status, "pause");
  }
  read_only_ = true;  // which ends a trim
  const ExclusiveLock lock(writing_mutex_);
  if (auto done = volume_.commit(); !done) fail_stop_.set(done.error());
  return fail_stop_.check();
}

Result<void> RocksStore::close() {
  const kv::GiveWay::Hurry hurry(give_way_);
  Result<void> result;
  if (!read_only_) result = settle();
  keeper_.stop();
  quarantine_.stop();
  {
    const Waiting waiting("background work, which ends");
    rocksdb::CancelAllBackgroundWork(&db(), /*wait=*/true);
  }
  space_.end();
  const Status status = database_->close();
  if (read_only_) return {};
  if (result) result = fail_stop_.check();
  if (result) result = kv::to_result(status, "close");
  if (result) result = volume_.commit();
  return result;
}

StoreStats RocksStore::stats() const {
  StoreStats stats;
  std::map<int, StoreStats::Level> levels;
  for (auto* handle : database_->handles()) {
    rocksdb::ColumnFamilyMetaData facts;
    db().GetColumnFamilyMetaData(handle, &facts);
    for (const auto& level : facts.levels) {
      if (level.files.empty()) continue;
      StoreStats::Level& sum = levels[level.level];
      sum.level = level.level;
      sum.files += level.files.size();
      sum.bytes.v += level.size;
      stats.table_bytes += level.size;
    }
    rocksdb::TablePropertiesCollection properties;
    if (db().GetPropertiesOfAllTables(handle, &properties).ok()) {
      for (const auto& [name, table] : properties) stats.raw_bytes += table->raw_key_size + table->raw_value_size;
    }
    std::uint64_t memtables = 0;
    if (db().GetIntProperty(handle, rocksdb::DB::Properties::kCurSizeAllMemTables, &memtables)) {
      stats.memtable_bytes += memtables;
    }
  }
  for (const auto& [number, level] : levels) stats.levels.push_back(level);
  stats.cache_bytes = database_->caches().usage();
  stats.blob_bytes = blob_space_.taken();
  return stats;
}

Result<void> RocksStore::grow(std::optional<ByteCount> size) {
  const SharedLock lock(writing_mutex_);
  if (read_only_) return make_error(EROFS, "grow: the store is open for reading only");
  LSMFS_TRY(fail_stop_.check());
  const auto grown = volume_.grow(size);
  // A failed write of the superblock stops the volume.
  if (const auto failure = volume_.failure()) fail_stop_.set(*failure);
  LSMFS_TRY(grown);
  space_.grown(planned_for(volume_, {}, options_.cache));
  return {};
}

bool RocksStore::suits(ByteCount tables) const {
  const kv::Sizing planned = planned_for(volume_, tables, options_.cache);
  return planned.table == sizing_.table && planned.names_table == sizing_.names_table && space_.taken() + planned.working <= tables.v;
}

StoreActivity RocksStore::activity() const {
  const auto relaxed = std::memory_order_relaxed;
  const kv::SpaceGauge::Figures space = space_.figures();
  StoreActivity now;
  now.commits = committed_.load(relaxed);
  now.committed_bytes = done_.committed_bytes.load(relaxed);
  now.stream_bytes = done_.stream_bytes.load(relaxed);
  now.syncs = done_.syncs.load(relaxed);
  now.flushes = done_.flushes.load(relaxed);
  now.compactions = done_.compactions.load(relaxed);
  now.compaction_ns = done_.compaction_ns.load(relaxed);
  now.stalls = space.stalls;
  now.stall_ns = space.stall_ns;
  now.delays = space.delays;
  now.delay_ns = space.delay_ns;
  now.data = ticks_->data();
  now.indexes = ticks_->indexes();
  for (auto* handle : database_->handles()) {
    using Properties = rocksdb::DB::Properties;
    const auto add = [&](std::uint64_t& sum, const std::string& name) {
      std::uint64_t value = 0;
      if (db().GetIntProperty(handle, name, &value)) sum += value;
    };
    add(now.memtable_bytes, Properties::kCurSizeAllMemTables);
    add(now.debt_bytes, Properties::kEstimatePendingCompactionBytes);
    for (int level = 0; level < db().NumberLevels(handle); ++level) {
      std::string tables;
      if (db().GetProperty(handle, Properties::kNumFilesAtLevelPrefix + std::to_string(level), &tables)) now.tables += std::stoull(tables);
    }
  }
  now.cache_bytes = database_->caches().usage();
  now.level0_tables = space.level0_tables;
  now.table_bytes = space.tables;
  now.blob_bytes = blob_space_.taken();
  now.wanted_bytes = space.wanted;
  now.total_bytes = space.total;
  now.reserve_bytes = space.reserve;
  now.lost_ranges = lost_.any() ? lost_.all().size() : 0;
  now.starved = space.starved ? 1 : 0;
  now.failed = fail_stop_.failed() ? 1 : 0;
  return now;
}

bool RocksStore::idle() const {
  return keeper_.idle() && quarantine_.idle() && !kv::is_busy(db(), database_->handles());
}

Result<std::unique_ptr<Store>> Store::open(Volume& volume, const StoreOptions& options) {
  auto store = std::make_unique<RocksStore>(volume, options, planned_for(volume, options.as_if, options.cache));
  LSMFS_TRY(store->open());
  return std::unique_ptr<Store>(std::move(store));
}

}  // namespace lsmfs
