#include "kv/space.h"

#include <rocksdb/metadata.h>
#include <rocksdb/version.h>

#include <algorithm>

#include "kv/batch.h"
#include "kv/options.h"

namespace lsmfs::kv {

namespace {

constexpr auto kFresh = std::chrono::milliseconds(5);         // age of a measurement that is good enough
constexpr auto kTablesFresh = std::chrono::milliseconds(20);  // walking all tables' facts costs more
constexpr auto kSlice = std::chrono::milliseconds(50);        // a wait looks again after this
constexpr auto kPurge = std::chrono::milliseconds(500);       // and after this for what can be removed
constexpr auto kLogGone = std::chrono::seconds(1);            // after a flush its log is removed at the latest
constexpr auto kFutile = std::chrono::seconds(20);            // between compactions that would meet the same end
constexpr auto kGiveUp = std::chrono::seconds(60);            // a wait in which nothing ends
constexpr int kTries = 4;  // of measuring, while flushes end meanwhile

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

std::uint64_t property(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const std::string& name) {
  std::uint64_t value = 0;
  return db.GetIntProperty(handle, name, &value) ? value : 0;
}

}  // namespace

void SpaceGauge::start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  db_ = db;
  std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
  fixed_free_after_flush_.store(sizing_.fixed);  // all that is there may be a log that a crash has left
  refresh();
}

SpaceGauge::Memtables SpaceGauge::memtables() const {
  Memtables all;
  for (const Family family : {Family::names, Family::blocks}) {
    using Properties = rocksdb::DB::Properties;
    auto* handle = handles_[family_number(family)];
    const std::uint64_t bytes = property(*db_, handle, Properties::kCurSizeAllMemTables);
    const std::uint64_t waiting = minus(bytes, property(*db_, handle, Properties::kCurSizeActiveMemTable));
    const std::uint64_t full = family == Family::names ? sizing_.names_memtable : sizing_.blocks_memtable;
    all.families[family_number(family)] = {bytes, waiting, full};
    all.many |= bytes >= kMemtablesFull * full || property(*db_, handle, Properties::kNumImmutableMemTable) >= kMemtablesMost;
  }
  return all;
}

void SpaceGauge::measure_tables() {
  tables_stale_.store(false);
  tables_measured_ = clock_.now();
  std::uint64_t bytes = 0, level0_bytes = 0, level0_tables = 0, base_bytes = 0, merge_bytes = 0;
  for (auto* handle : handles_) {
    rocksdb::ColumnFamilyMetaData facts;
    db_->GetColumnFamilyMetaData(handle, &facts);
    const std::uint64_t base = property(*db_, handle, rocksdb::DB::Properties::kBaseLevel);
    std::uint64_t merge = 0;
    for (const auto& level : facts.levels) {
      std::uint64_t taken = 0;
      for (const auto& table : level.files) taken += on_volume(table.size);
      bytes += taken;
      const bool is_base = static_cast<std::uint64_t>(level.level) == base;
      if (is_base) base_bytes = std::max(base_bytes, level.size);
      if (is_base || level.level == 0) merge += taken;
      if (level.level != 0) continue;
      level0_bytes = std::max(level0_bytes, level.size);
      level0_tables = std::max<std::uint64_t>(level0_tables, level.files.size());
    }
    merge_bytes = std::max(merge_bytes, merge);
  }
  tables_bytes_.store(bytes);
  level0_bytes_.store(level0_bytes);
  level0_tables_.store(level0_tables);
  base_bytes_.store(base_bytes);
  merge_bytes_.store(merge_bytes);
}

void SpaceGauge::measure(bool exact) {
  since_refresh_.store(0, std::memory_order_relaxed);
  Memtables unwritten = memtables();
  // A flush takes its rows out of one of the two numbers and puts them into the other. With one from before it and one from
  // after it there would be room that is not there, or none where there is some.
  const bool flushed = unwritten.bytes() < unflushed_.load();
  const bool due = tables_stale_.load() && (exact || clock_.now() - tables_measured_ >= kTablesFresh);
  for (int tries = flushed || due ? kTries : 0; tries > 0; --tries) {
    measure_tables();
    const Memtables after = memtables();
    const bool agree = after.bytes() >= unwritten.bytes();
    unwritten = after;
    if (agree) break;
  }
  const bool all_flushed = all_flushed_.exchange(false);
  const VolumeUsage usage = volume_.usage();
  unflushed_.store(unwritten.bytes());
  many_memtables_.store(unwritten.many);
  for (const Family family : {Family::names, Family::blocks}) pace_.measured(family, unwritten.families[family_number(family)]);
  free_.store(usage.table_free.v);
  fixed_free_.store(usage.fixed_free.v);
  fixed_free_after_flush_.store(all_flushed ? usage.fixed_free.v : std::max(fixed_free_after_flush_.load(), usage.fixed_free.v));
  if (usage.fixed_free.v < usage.fixed_total.v / 2 && log_has_grown()) want_flush_();
  // The end of the list of files is kept for compactions, and for what erases.
  const bool listed = usage.list_free.v > usage.list_total.v / 8;
  const std::uint64_t kept = sizing_.reserve + tables_bytes_.load() + unwritten.bytes();
  room_.store(listed && !starved_.load() ? std::min(minus(sizing_.total, kept), minus(usage.table_free.v, unwritten.bytes())) : 0);
  give_way_.hurry(level0_tables_.load() >= kLevel0Wait / 2 || room_.load() < sizing_.total / 16 || must_wait());
  measured_ns_.store(clock_.now_ns(), std::memory_order_release);
}

void SpaceGauge::refresh() {
  std::lock_guard lock(mutex_);
  measure(true);
}

bool SpaceGauge::stale() const {
  const std::uint64_t step = std::min(sizing_.blocks_memtable / 8, sizing_.fixed / 64);
  return since_refresh_.load(std::memory_order_relaxed) >= step ||
         clock_.now_ns() - measured_ns_.load(std::memory_order_acquire) >= std::chrono::nanoseconds(kFresh).count();
}

void SpaceGauge::try_refresh() {
  if (!stale()) return;
  // Somebody else measures: the old numbers do for this caller.
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) measure(false);
}

ByteCount SpaceGauge::room() const {
  const_cast<SpaceGauge*>(this)->try_refresh();
  return ByteCount{minus(room_.load(), since_refresh_.load(std::memory_order_relaxed))};
}

bool SpaceGauge::log_has_grown() const {
  return minus(fixed_free_after_flush_.load(), fixed_free_.load()) >= sizing_.fixed / 16;
}

bool SpaceGauge::log_waits() const {
  const bool going = clock_.now_ns() - all_flushed_ns_.load() < std::chrono::nanoseconds(kLogGone).count();
  return fixed_free_.load() < sizing_.fixed / 8 && (going || log_has_grown());
}

bool SpaceGauge::must_wait() const {
  if (level0_tables_.load() >= static_cast<std::uint64_t>(kLevel0Wait)) return true;
  if (many_memtables_.load()) return true;
  if (log_waits()) return true;
  const std::uint64_t free = free_.load(), unflushed = unflushed_.load();
  if (free < unflushed + on_volume(sizing_.blocks_memtable)) return true;
  if (starved_.load()) return false;  // no compaction makes that better, and what erases is let in while it can be flushed
  // The next compaction of level 0 must find space for all that lies there now. When the reserve
  // cannot hold it because more has gathered than was planned for, that compaction comes first.
  if (level0_bytes_.load() > sizing_.level0_tight && free < level0_bytes_.load() + sizing_.level_base + sizing_.compaction + unflushed) return true;
  // It rewrites all of the level that it goes to, which holds more than its share while compactions fall behind. As long as it
  // does, RocksDB has one to do that makes it smaller.
  const std::uint64_t beside = sizing_.background_jobs > 2 ? sizing_.compaction : 2 * on_volume(sizing_.table);
  return base_bytes_.load() > sizing_.level_base && free < merge_bytes_.load() + beside + unflushed;
}

Result<void> SpaceGauge::admit(std::uint64_t bytes) {
  try_refresh();
  if (must_wait()) {
    // Progress is a flush or compaction that ended. Without any for so long something is wrong
    // with the arithmetic here: RocksDB's own brakes then decide.
    const Waiting waiting("space, which flushes and compactions make");
    std::unique_lock lock(wait_mutex_);
    Clock::Time last_progress = clock_.now(), last_purge = last_progress;
    std::uint64_t seen = changes_;
    while (true) {
      lock.unlock();
      refresh();
      LSMFS_TRY(fail_stop_.check());
      if (!must_wait()) break;
      // Nobody else may have a reason to make the removal of logs durable. If it fails, so does the commit.
      if (log_waits()) LSMFS_TRY(volume_.commit());
      if (free_.load() < sizing_.reserve / 2 && clock_.now() - last_purge >= kPurge) {
        purge();
        last_purge = clock_.now();
      }
      lock.lock();
      clock_.wait(lock, changed_, clock_.now() + kSlice);
      if (changes_ != seen) {
        seen = changes_;
        last_progress = clock_.now();
      } else if (clock_.now() - last_progress > kGiveUp) {
        lock.unlock();
        // It would wait for ever in RocksDB.
        if (starved_.load() && level0_tables_.load() + kMemtablesMost + 2 >= kLevel0Stop) {
          return make_error(ENOSPC, "commit: there is no space for compactions");
        }
        break;
      }
    }
  }
  since_refresh_.fetch_add(bytes, std::memory_order_relaxed);
  const Clock::Time now = clock_.now(), due = pace_.due(bytes, now);
  if (due > now) {
    const Waiting waiting("flushes, which fall behind");
    clock_.sleep_until(due);
  }
  return {};
}

void SpaceGauge::purge() {
  db_->DisableFileDeletions().PermitUncheckedError();
#if ROCKSDB_MAJOR < 9
  db_->EnableFileDeletions(false).PermitUncheckedError();
#else
  db_->EnableFileDeletions().PermitUncheckedError();
#endif
}

void SpaceGauge::compaction_begins() {
  constexpr auto kLook = std::chrono::milliseconds(500);
  const auto free = [this] { return volume_.usage().table_free.v; };
  for (const Clock::Time last = clock_.now() + kFutile; starved_.load() && free() <= starved_with_.load() && clock_.now() < last;) {
    if (give_way_.awaited() || fail_stop_.failed()) break;
    clock_.sleep(kLook);
    purge();
    if (!volume_.commit()) break;  // which is met by whoever writes next
  }
  began_with_ = free();
}

void SpaceGauge::compaction_starved() {
  starved_with_.store(began_with_);
  if (starved_.exchange(true)) return;
  notice_("a compaction finds no space: new data is refused until one does");
}

void SpaceGauge::flush_ended(Family family, std::uint64_t bytes) {
  pace_.flush_ended(family, bytes, clock_.now());
  tables_changed();
  measured_ns_.store(0, std::memory_order_release);  // its memtable is gone
}

void SpaceGauge::all_flushed() {
  all_flushed_ns_.store(clock_.now_ns());
  all_flushed_.store(true);
}

void SpaceGauge::tables_changed() {
  tables_stale_.store(true);
  {
    std::lock_guard lock(wait_mutex_);
    ++changes_;
  }
  changed_.notify_all();
}

}  // namespace lsmfs::kv
