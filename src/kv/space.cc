#include "kv/space.h"

#include <rocksdb/metadata.h>
#include <rocksdb/version.h>

#include <algorithm>

#include "kv/batch.h"
#include "kv/database.h"
#include "kv/levels.h"
#include "kv/options.h"
#include "kv/small_tables.h"

namespace lsmfs::kv {

namespace {

constexpr auto kFresh = std::chrono::milliseconds(5);         // age of a measurement that is good enough
constexpr auto kSlice = std::chrono::milliseconds(50);        // a wait looks again after this
constexpr auto kPurge = std::chrono::milliseconds(500);       // and after this for what can be removed
constexpr auto kLogGone = std::chrono::seconds(1);            // after a flush its log is removed at the latest
constexpr auto kFutile = std::chrono::seconds(20);            // between compactions that would meet the same end
constexpr auto kGiveUp = std::chrono::seconds(60);            // a wait in which nothing ends
constexpr std::uint64_t kRowData = 4096;                      // bytes of file data in a row
constexpr double kLeastGrowth = 1. / 16;                      // of rows that replace others, where most cannot be compressed
constexpr int kTries = 4;                                     // of measuring, while flushes end meanwhile

// A walk over so many tables takes long. There is no other one for some times as long; but who waits for space waits for a walk, too.
constexpr std::size_t kManyTables = 2000;
constexpr int kRests = 20;
constexpr auto kRestMost = std::chrono::milliseconds(500);
constexpr std::size_t kFewTables = 32;  // that are new: of more, all tables are asked for their properties

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

// Counts a wait, and how long it was.
class Waited {
 public:
  Waited(Clock& clock, std::atomic<std::uint64_t>& times, std::atomic<std::uint64_t>& ns) : clock_(clock), ns_(ns), began_(clock.now_ns()) { ++times; }
  ~Waited() { ns_ += static_cast<std::uint64_t>(std::max<std::int64_t>(clock_.now_ns() - began_, 0)); }
  Waited(const Waited&) = delete;
  Waited& operator=(const Waited&) = delete;

 private:
  Clock& clock_;
  std::atomic<std::uint64_t>& ns_;
  const std::int64_t began_;
};

std::uint64_t property(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const std::string& name) {
  std::uint64_t value = 0;
  return db.GetIntProperty(handle, name, &value) ? value : 0;
}

}  // namespace

void SpaceGauge::start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  {
    const MutexLock in_order(tables_mutex_);
    std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
    db_.store(db);
  }
  fixed_free_after_flush_.store(sizing_.fixed);  // all that is there may be a log that a crash has left
  measure_tables();
}

SpaceGauge::Memtables SpaceGauge::memtables() const {
  Memtables all;
  for (const Family family : {Family::names, Family::blocks}) {
    using Properties = rocksdb::DB::Properties;
    auto* handle = handles_[family_number(family)];
    const std::uint64_t bytes = property(*db_.load(), handle, Properties::kCurSizeAllMemTables);
    const std::uint64_t waiting = minus(bytes, property(*db_.load(), handle, Properties::kCurSizeActiveMemTable));
    const std::uint64_t full = family == Family::names ? sizing_.names_memtable : sizing_.blocks_memtable;
    all.families[family_number(family)] = {bytes, waiting, full};
    all.many |= bytes >= kMemtablesFull * full || property(*db_.load(), handle, Properties::kNumImmutableMemTable) >= kMemtablesMost;
  }
  return all;
}

SpaceGauge::Tables SpaceGauge::tables() {
  Tables all;
  for (const Family family : {Family::names, Family::blocks}) {
    auto* handle = handles_[family_number(family)];
    rocksdb::ColumnFamilyMetaData facts;
    db_.load()->GetColumnFamilyMetaData(handle, &facts);
    const int named = static_cast<int>(property(*db_.load(), handle, rocksdb::DB::Properties::kBaseLevel));
    const int base = level0_goes_to(facts, named, family == Family::names ? sizing_.names_level_base : sizing_.level_base, sizing_.fanout);
    const int last = last_level(facts);
    std::uint64_t merge = 0;
    for (const auto& level : facts.levels) {
      std::uint64_t taken = 0;
      for (const auto& table : level.files) taken += on_volume(table.size);
      all.bytes += taken;
      if (level.level == last && last > 0) all.last += taken;
      const bool is_base = level.level == base;
      if (is_base) all.base_bytes = std::max(all.base_bytes, level.size);
      if (is_base || level.level == 0) merge += taken;
      if (level.level != 0) continue;
      all.level0_bytes = std::max(all.level0_bytes, level.size);
      all.level0_tables = std::max<std::uint64_t>(all.level0_tables, level.files.size());
    }
    all.merge_bytes = std::max(all.merge_bytes, merge);
    if (family == Family::names) {
      all.names = merged_tables(facts, {});
      all.lost += lost_in_small_tables(facts, sizing_.names_table);
    } else {
      learn_rows(facts);
      all.blocks = merged_tables(facts, rows_);
      all.lost += lost_in_small_tables(facts, sizing_.table);
    }
  }
  return all;
}

std::vector<Live::Table> SpaceGauge::merged_tables(const rocksdb::ColumnFamilyMetaData& facts, const RowsOfTables& known) {
  const int last = last_level(facts);
  std::vector<Live::Table> tables;
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      const auto found = known.find(table.file_number);
      const Rows rows = found != known.end() ? found->second : Rows{};
      tables.push_back({.number = table.file_number,
                        .first = table.smallestkey,
                        .last = table.largestkey,
                        .bytes = table.size,
                        .rows = rows.count,
                        .bottom = level.level == last && last > 0,
                        .erases = rows.erases});
    }
  }
  return tables;
}

// The facts of a table count no rows after a mount (skip_stats_update_on_db_open), and never patches. Its properties do, and are in
// memory, as all tables are open; but to ask for them takes longer than all else here, and they never change.
void SpaceGauge::learn_rows(const rocksdb::ColumnFamilyMetaData& facts) {
  RowsOfTables before = std::exchange(rows_, {});
  std::vector<const rocksdb::SstFileMetaData*> fresh;
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      if (auto row = before.extract(table.file_number)) {
        rows_.insert(std::move(row));
      } else {
        fresh.push_back(&table);
      }
    }
  }
  if (fresh.empty()) return;
  auto* const handle = handles_[family_number(Family::blocks)];
  rocksdb::TablePropertiesCollection properties;
  std::vector<rocksdb::Range> ranges;
  for (const auto* table : fresh) ranges.emplace_back(table->smallestkey, table->largestkey);
  const bool few = ranges.size() <= kFewTables;
  const auto status = few ? db_.load()->GetPropertiesOfTablesInRange(handle, ranges.data(), ranges.size(), &properties)
                          : db_.load()->GetPropertiesOfAllTables(handle, &properties);
  if (!status.ok()) return;  // the next one asks again
  for (const auto* table : fresh) {
    const auto found = properties.find(table->db_path + table->name);
    if (found == properties.end()) continue;  // it has gone meanwhile
    const auto& of_it = *found->second;
    rows_[table->file_number] = {minus(of_it.num_entries, of_it.num_deletions + of_it.num_merge_operands), of_it.num_deletions > 0};
  }
}

void SpaceGauge::end() {
  const MutexLock in_order(tables_mutex_);
  db_.store(nullptr);
}

void SpaceGauge::measure_tables() {
  const MutexLock in_order(tables_mutex_);
  const Clock::Time began = clock_.now();
  if (db_.load() == nullptr) return;  // it is still being opened, or already closed
  const std::uint64_t flushed = flushed_.load();
  // A flush takes its rows out of one of the two numbers and puts them into the other. With one from before it and one from
  // after it there would be room that is not there, or none where there is some.
  Tables found;
  Memtables before, after = memtables();
  for (int tries = kTries; tries > 0; --tries) {
    before = after;
    found = tables();
    after = memtables();
    if (after.grew_from(before)) break;
  }
  level0_bytes_.store(found.level0_bytes);
  level0_tables_.store(found.level0_tables);
  base_bytes_.store(found.base_bytes);
  merge_bytes_.store(found.merge_bytes);
  tables_bytes_.store(found.bytes);
  lost_.store(found.lost);
  if (found.names.size() + found.blocks.size() >= kManyTables) {
    const Clock::Time ended = clock_.now();
    next_ns_.store((ended + std::min<Clock::Duration>(kRests * (ended - began), kRestMost)).time_since_epoch().count());
  }
  const MutexLock lock(mutex_);
  names_bytes_ = names_above_bytes_ = blocks_bytes_ = 0;
  for (const Live::Table& table : found.names) (table.bottom ? names_bytes_ : names_above_bytes_) += table.bytes;
  for (const Live::Table& table : found.blocks) blocks_bytes_ += table.bottom ? table.bytes : 0;
  last_taken_ = found.last;
  live_.measured(std::move(found.blocks), flushed);
  memtables_ = after;
  measure();
}

void SpaceGauge::measure() {
  since_refresh_.store(0, std::memory_order_relaxed);
  const Memtables now = memtables();
  // What has just left them is not counted in tables yet.
  for (const Family family : {Family::names, Family::blocks}) {
    const std::size_t n = family_number(family);
    memtables_.families[n].bytes = std::max(memtables_.families[n].bytes, now.families[n].bytes);
    pace_.measured(family, now.families[n]);
  }
  const bool all_flushed = all_flushed_.exchange(false);
  const VolumeUsage usage = volume_.usage();
  unflushed_.store(memtables_.bytes());
  many_memtables_.store(now.many);
  free_.store(usage.table_free.v);
  fixed_free_.store(usage.fixed_free.v);
  fixed_free_after_flush_.store(all_flushed ? usage.fixed_free.v : std::max(fixed_free_after_flush_.load(), usage.fixed_free.v));
  if (usage.fixed_free.v < usage.fixed_total.v / 2 && log_has_grown()) want_flush_();
  // The end of the list of files is kept for compactions, and for what erases.
  listed_.store(usage.list_free.v > usage.list_total.v / 8);
  const std::uint64_t wanted = count();
  // Flushes need what the working space has over that of merges. However full it is, merges have theirs: commits wait for that.
  const std::uint64_t others = tables_bytes_.load() + blobs_.taken() + unflushed_.load() + sizing_.working - sizing_.merging;
  merges_.set_space(std::max(sizing_.merging, minus(total_.load(), others)));
  pace_.space(static_cast<std::uint64_t>(std::max<std::int64_t>(spare(), 0)), total_.load());
  give_way_.hurry(level0_tables_.load() >= kLevel0Wait / 2 || minus(limit(), wanted) < total_.load() / 16 || must_wait());
  measured_ns_.store(clock_.now_ns(), std::memory_order_release);
}

std::uint64_t SpaceGauge::count() {
  const auto taken = [](std::uint64_t bytes, std::uint64_t table) {
    return static_cast<std::uint64_t>(static_cast<double>(bytes) * taken_per_byte(table));
  };
  // What lies over the last level of names replaces more than it adds, and is left out as far as the reserve has it. What is there
  // takes a granule at least, which no limit has.
  const std::uint64_t above = names_above_bytes_ + memtables_.families[family_number(Family::names)].bytes;
  const std::uint64_t names = std::max(taken(names_bytes_, sizing_.names_table), kTableGranule);
  const std::uint64_t uncounted = counts_rows_.load() ? 0 : memtables_.families[family_number(Family::blocks)].bytes;
  const std::uint64_t blocks = taken(live_.bytes() + uncounted, sizing_.table);
  // Tables that end early in a granule come and go. So the reserve has what they lose, unless that is much.
  const std::uint64_t lost = minus(last_taken_, names + taken(blocks_bytes_, sizing_.table));
  const std::uint64_t wanted =
      names - kTableGranule + minus(above, sizing_.names_above) + blocks + minus(lost, slack() / 4) + blobs_.taken() + blobs_.beside();
  const Counted counted{.wanted = wanted,
                        .names_in_granule = std::min(names_bytes_ + above, kTableGranule),
                        .removed = removed(wanted),
                        .growth_of_replaced = std::max(1 - live_.row_bytes() / Live::kRowBytes, kLeastGrowth),
                        .rows = live_.rows()};
  const MutexLock lock(counted_mutex_);
  counted_ = counted;
  return wanted;
}

std::uint64_t SpaceGauge::removed(std::uint64_t wanted) {
  if (!counts_rows_.load()) return 0;
  const std::uint64_t rows = live_.rows(), removed = minus(filled_rows_, rows);
  const std::uint64_t filled = wanted + static_cast<std::uint64_t>(static_cast<double>(removed) * row_on_volume());
  // Over that they compressed, and others would not.
  const bool nearly_full = filled > limit() - little() && filled <= limit_again();
  filled_rows_ = nearly_full ? std::max(filled_rows_, rows) : rows;
  return (filled_rows_ - rows) * kRowData;
}

void SpaceGauge::blobs_changed() {
  if (db_.load() == nullptr) return;
  const MutexLock lock(mutex_);
  measure();
}

void SpaceGauge::note_rows(std::uint64_t rows) {
  const MutexLock lock(mutex_);
  live_.begin(rows);
  counts_rows_.store(true);
  count();
}

void SpaceGauge::committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows, const std::vector<ErasedRange>& ranges, const ErasedRows& erased,
                           std::int64_t in_bulk) {
  const MutexLock lock(mutex_);
  live_.committed(sequence, bytes, rows, ranges, erased, in_bulk);
  counts_rows_.store(true);
  count();
}

void SpaceGauge::bulk_committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows) {
  const MutexLock lock(mutex_);
  live_.committed(sequence, bytes, live_.rows(), {}, {}, -static_cast<std::int64_t>(rows));
  count();
}

void SpaceGauge::bulk_taken_in(std::uint64_t rows) {
  {
    const MutexLock lock(mutex_);
    live_.bulk_taken_in(rows);
  }
  tables_changed();
}

std::optional<std::pair<std::string, std::string>> SpaceGauge::worst() {
  const MutexLock lock(mutex_);
  return live_.worst();
}

bool SpaceGauge::has_small_tables() {
  const std::uint64_t lost = lost_.load(), before = lost_before_.load();
  const bool has = lost >= total_.load() / 128 && lost >= before + total_.load() / 256;
  if (has || lost < before) lost_before_.store(lost);
  return has;
}

bool SpaceGauge::stale() const {
  const std::uint64_t step = std::min(sizing_.blocks_memtable / 8, sizing_.fixed / 64);
  return since_refresh_.load(std::memory_order_relaxed) >= step ||
         clock_.now_ns() - measured_ns_.load(std::memory_order_acquire) >= std::chrono::nanoseconds(kFresh).count();
}

void SpaceGauge::try_refresh() {
  if (!stale() || db_.load() == nullptr) return;
  // Somebody else measures: the old numbers do for this caller.
  if (!mutex_.try_lock()) return;
  measure();
  mutex_.unlock();
}

ByteCount SpaceGauge::in_rows(std::uint64_t on_volume) const {
  return ByteCount{static_cast<std::uint64_t>(static_cast<double>(on_volume) / row_on_volume() * kRowData)};
}

SpaceGauge::Counted SpaceGauge::counted() const {
  const_cast<SpaceGauge*>(this)->try_refresh();
  const MutexLock lock(counted_mutex_);
  return counted_;
}

ByteCount SpaceGauge::under(std::uint64_t limit, const Counted& counted) const {
  const std::uint64_t more = counts_rows_.load() ? 0 : since_refresh_.load(std::memory_order_relaxed);
  return in_rows(minus(limit, counted.wanted + more));
}

// Nothing is lost by a compaction that finds no space, and erasing goes on.
ByteCount SpaceGauge::room(const Counted& counted) const {
  if (!takes_new()) return ByteCount{0};
  return std::max(under(limit(), counted), std::min(under(limit_again(), counted), ByteCount{counted.removed}));
}

Store::Room SpaceGauge::room() const {
  const Counted now = counted();
  return {room(now), now.rows};
}

Store::Space SpaceGauge::space() const {
  const Counted now = counted();
  const ByteCount total = in_rows(limit()), free = under(limit() - now.names_in_granule, now);
  return {total, takes_new() && free > in_rows(little()) ? free : std::min(room(now), total)};
}

SpaceGauge::Figures SpaceGauge::figures() const {
  const Counted now = counted();
  return {total_, reserve_, now.wanted, tables_bytes_, level0_tables_, starved_, stalls_, stall_ns_, delays_, delay_ns_};
}

Store::Room SpaceGauge::room_for_names() const {
  const Counted now = counted();
  return {takes_new() ? under(limit_of_names(), now) : ByteCount{0}, now.rows};
}

Store::Room SpaceGauge::room_to_replace() const {
  const Counted now = counted();
  return {ByteCount{static_cast<std::uint64_t>(static_cast<double>(under(limit_to_replace(), now).v) / now.growth_of_replaced)}, now.rows};
}

void SpaceGauge::grown(const Sizing& planned) {
  reserve_.store(std::max(reserve_.load(), planned.reserve));
  total_.store(planned.total);
  tables_changed();
}

std::uint64_t SpaceGauge::least_total(const VolumeUsage& usage, ByteCount cache) const {
  const std::uint64_t wanted = counted().wanted;
  // The reserve grows more slowly than the total.
  std::uint64_t least = 0, enough = usage.table_total.v;
  while (enough - least > MiB) {
    VolumeUsage tried = usage;
    tried.table_total = ByteCount{least + (enough - least) / 2};
    const Sizing planned = Sizing::plan(tried, cache);
    const bool fits = planned.total > planned.reserve + kTableGranule && wanted <= planned.total - planned.reserve - kTableGranule;
    (fits ? enough : least) = tried.table_total.v;
  }
  return enough;
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
  return log_waits() || spare() < 0;
}

bool SpaceGauge::nothing_to_merge() {
  if (unflushed_.load() > sizing_.blocks_memtable / 16 || lost_.load() >= total_.load() / 128 || is_busy(*db_.load(), handles_)) return false;
  const MutexLock lock(mutex_);
  return counts_rows_.load() && !live_.worst();
}

std::int64_t SpaceGauge::spare() const {
  const std::uint64_t unflushed = unflushed_.load();
  std::uint64_t needed = on_volume(sizing_.blocks_memtable);
  if (!starved_.load()) {  // else no compaction makes it better, and what erases is let in while it can be flushed
    // The next compaction of level 0 must find space for all that lies there now. When the reserve
    // cannot hold it because more has gathered than was planned for, that compaction comes first.
    if (level0_bytes_.load() > sizing_.level0_tight) needed = std::max(needed, level0_bytes_.load() + sizing_.level_base + sizing_.compaction);
    // It rewrites all of the level that it goes to, which holds more than its share while compactions fall behind. As long as it
    // does, RocksDB has one to do that makes it smaller.
    const std::uint64_t beside = sizing_.background_jobs > 2 ? sizing_.compaction : 2 * on_volume(sizing_.table);
    if (base_bytes_.load() > sizing_.level_base) needed = std::max(needed, merge_bytes_.load() + beside);
  }
  const auto less = [&](std::uint64_t has, std::uint64_t needs) { return static_cast<std::int64_t>(has) - static_cast<std::int64_t>(needs + unflushed); };
  // Of what is free, merges that run have taken their part already. All that they ever need is to be left beside the tables.
  const std::uint64_t working = sizing_.working + minus(merges_.needed(), sizing_.merging);
  return std::min(less(free_.load(), needed), less(total_.load(), working + tables_bytes_.load() + blobs_.taken()));
}

Result<void> SpaceGauge::admit(std::uint64_t bytes) {
  try_refresh();
  if (must_wait()) {
    // Progress is a flush or compaction that ended, or one that has begun and goes on, be it on a slow or busy machine. Without any
    // for so long something is wrong with the arithmetic here: RocksDB's own brakes then decide.
    const Waiting waiting("space, which flushes and compactions make");
    const Waited stalled(clock_, stalls_, stall_ns_);
    MutexLock lock(wait_mutex_);
    Clock::Time last_progress = clock_.now(), last_purge = last_progress;
    std::uint64_t seen = changes_;
    while (true) {
      lock.unlock();
      {
        const MutexLock measuring(mutex_);
        measure();
      }
      LSMFS_TRY(fail_stop_.check());
      if (!must_wait()) break;
      if (spare() < 0) want_space_();
      if (spare() < 0 && nothing_to_merge()) break;
      // Nobody else may have a reason to make the removal of logs durable. If it fails, so does the commit.
      if (log_waits()) LSMFS_TRY(volume_.commit());
      if (free_.load() < reserve_.load() / 2 && clock_.now() - last_purge >= kPurge) {
        purge();
        last_purge = clock_.now();
      }
      // One that waits for space itself is none.
      const bool merges = !starved_.load() && is_running(*db_.load(), handles_);
      lock.lock();
      clock_.wait(lock, changed_, clock_.now() + kSlice);
      if (changes_ != seen || merges) {
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
    const Waited slowed(clock_, delays_, delay_ns_);
    clock_.sleep_until(due);
  }
  return {};
}

void SpaceGauge::purge() {
  rocksdb::DB* const db = db_.load();
  if (db == nullptr) return;  // it is being closed, which waits for whoever is here
  db->DisableFileDeletions().PermitUncheckedError();
#if ROCKSDB_MAJOR < 9
  db->EnableFileDeletions(false).PermitUncheckedError();
#else
  db->EnableFileDeletions().PermitUncheckedError();
#endif
}

void SpaceGauge::compaction_begins() {
  constexpr auto kLook = std::chrono::milliseconds(500), kFlushLook = std::chrono::milliseconds(10);
  const auto free = [this] { return volume_.usage().table_free.v; };
  for (const Clock::Time last = clock_.now() + kFutile; starved_.load() && free() <= starved_with_.load() && clock_.now() < last;) {
    if (give_way_.awaited() || fail_stop_.failed() || db_.load() == nullptr) break;
    clock_.sleep(kLook);
    purge();
    if (!volume_.commit()) break;  // which is met by whoever writes next
  }
  // While a flush runs, RocksDB keeps all tables that there were when it began. One merge after the other beside it would get nothing
  // back for what it writes.
  const auto flushes = [this] {
    const MutexLock in_order(tables_mutex_);
    return db_.load() != nullptr && is_flushing(*db_.load(), handles_);  // else it is being opened or closed
  };
  const bool waits = free() < sizing_.working && flushes();
  for (const Clock::Time last = clock_.now() + kGiveUp; free() < sizing_.working && clock_.now() < last && flushes();) {
    if (give_way_.awaited() || fail_stop_.failed()) break;
    clock_.sleep(kFlushLook);
  }
  if (waits) (void)volume_.commit();  // so that what the flush has let go of is free; likewise
  began_with_ = free();
}

void SpaceGauge::compaction_starved() {
  starved_with_.store(began_with_);
  if (starved_.exchange(true)) return;
  notice_("a compaction finds no space: new data is refused until one does");
}

void SpaceGauge::flush_ended(Family family, std::uint64_t bytes, std::uint64_t sequence) {
  pace_.flush_ended(family, bytes, clock_.now());
  if (family == Family::blocks) flushed_.store(sequence);
  tables_changed();
}

void SpaceGauge::all_flushed() {
  all_flushed_ns_.store(clock_.now_ns());
  all_flushed_.store(true);
}

void SpaceGauge::tables_changed() {
  const Clock::Time due{Clock::Duration(next_ns_.load())};
  if (clock_.now() >= due) {
    measure_tables();
  } else {
    want_measure_(due);
  }
  {
    const MutexLock lock(wait_mutex_);
    ++changes_;
  }
  changed_.notify_all();
}

}  // namespace lsmfs::kv
