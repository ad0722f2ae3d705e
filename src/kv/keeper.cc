#include "kv/keeper.h"

#include <malloc.h>
#include <rocksdb/options.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "kv/database.h"
#include "kv/options.h"
#include "kv/small_tables.h"

namespace lsmfs::kv {

namespace {

constexpr auto kLook = std::chrono::seconds(1);    // a wait for the end looks for failures after this
constexpr auto kStuck = std::chrono::seconds(60);  // and ends when no table has changed for this

// Ranges that overlap or are neighbours become one: for each the tables are looked at again.
std::vector<ErasedRange> joined(std::vector<ErasedRange> ranges) {
  std::ranges::sort(ranges, {}, [](const ErasedRange& range) { return std::tie(range.family, range.from); });
  std::vector<ErasedRange> fewer;
  for (ErasedRange& range : ranges) {
    if (!fewer.empty() && fewer.back().family == range.family && range.from <= fewer.back().to) {
      fewer.back().to = std::max(fewer.back().to, range.to);
    } else {
      fewer.push_back(std::move(range));
    }
  }
  return fewer;
}

}  // namespace

void Keeper::start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  {
    const MutexLock lock(mutex_);
    stop_ = false;
    tables_changed_ = sinks_;  // it goes on with what a stop has left
  }
  db_ = db;
  std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
  thread_ = named_thread("lsmfs-keeper", [this] { run(); });
}

void Keeper::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  const Waiting waiting("background work, which ends");
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  db_ = nullptr;  // it may go away from now on
}

void Keeper::want_flush() {
  {
    const MutexLock lock(mutex_);
    if (want_flush_) return;
    want_flush_ = true;
  }
  wake_.notify_all();
}

void Keeper::want_space() {
  {
    const MutexLock lock(mutex_);
    if (want_space_) return;
    want_space_ = true;
  }
  wake_.notify_all();
}

void Keeper::want_less_memory() {
  {
    const MutexLock lock(mutex_);
    want_less_ = true;
  }
  wake_.notify_all();
}

void Keeper::want_fewer_tables() {
  {
    const MutexLock lock(mutex_);
    want_fewer_ = true;
  }
  wake_.notify_all();
}

void Keeper::tables_changed() {
  {
    const MutexLock lock(mutex_);
    ++changes_;
    if (tables_changed_ || !sinks_) return;
    tables_changed_ = true;
  }
  wake_.notify_all();
}

void Keeper::measure_at(Clock::Time due) {
  {
    const MutexLock lock(mutex_);
    if (due >= measure_due_) return;
    measure_due_ = due;
  }
  wake_.notify_all();
}

void Keeper::note(const std::vector<ErasedRange>& ranges, const ErasedRows (&rows)[2]) {
  if (ranges.empty() && rows[0].rows + rows[1].rows == 0) return;
  const MutexLock lock(mutex_);
  const Clock::Time before = erased_.due();
  erased_.note(ranges, rows, clock_.now());
  if (erased_.due() < before) wake_.notify_all();
}

void Keeper::note_passed(Family family, std::string_view from, std::string_view to, std::uint64_t rows) {
  const MutexLock lock(mutex_);
  const Clock::Time before = erased_.due();
  erased_.passed(family, from, to, rows);
  if (erased_.due() < before) wake_.notify_all();
}

bool Keeper::idle() const {
  const MutexLock lock(mutex_);
  return fail_stop_.failed() || !(busy_ || want_flush_ || want_space_ || want_fewer_ || sinks_ || clock_.now() >= erased_.due());
}

void Keeper::run() {
  const IoFor compaction(IoCause::compaction);  // what it reads, it merges; the rest has causes of its own
  MutexLock lock(mutex_);
  while (!stop_) {
    const Clock::Time now = clock_.now(), due = erased_.due();
    if (now >= measure_due_) {
      measure_due_ = Clock::kNever;
      lock.unlock();
      measure_();
      lock.lock();
      continue;
    }
    if (std::exchange(want_less_, false)) {
      lock.unlock();
      malloc_trim(0);
      lock.lock();
      continue;
    }
    if (!want_flush_ && !want_space_ && !want_end_ && !want_fewer_ && !tables_changed_ && now < due) {
      clock_.wait(lock, wake_, std::min(due, measure_due_));
      continue;
    }
    if (fail_stop_.failed()) {
      want_flush_ = want_space_ = want_end_ = want_fewer_ = tables_changed_ = sinks_ = false;
      sinking_.clear();
      erased_.take_all();
      idle_.notify_all();
      continue;
    }
    const bool space = want_space_, flushes = want_flush_ || now >= due, changed = std::exchange(tables_changed_, false);
    Erased::Work work = space || want_end_ ? erased_.take_all() : erased_.take(now);
    const bool fewer = std::exchange(want_fewer_, false);
    want_end_ = false;
    busy_ = true;
    lock.unlock();
    const std::uint64_t sequence = db_->GetLatestSequenceNumber();
    if (flushes || !work.empty()) flush();
    const bool sank = !sinking_.empty();
    sink(std::move(work), sequence);
    if (space && sinking_.empty()) make_space();
    bool merged = false;
    if (!space && fewer) merged = merge_small_tables();
    // The tables may be seen to have sunk before RocksDB tells of it; afterwards nobody would hear of it.
    if (changed || merged || (sank && sinking_.empty())) space_changed_();
    lock.lock();
    want_fewer_ = want_fewer_ || merged || (space && fewer);  // perhaps there are more
    if (space) want_space_ = false;  // whoever waits still says so again
    sinks_ = !sinking_.empty();
    if (!sinks_) tables_changed_ = false;  // that was the last of it
    busy_ = false;
    idle_.notify_all();
  }
}

void Keeper::flush() {
  // A failure is RocksDB's background error, which the listener hears of.
  if (db_->Flush(flush_options(), {handles_[0], handles_[1]}).ok()) flushed_();
  const MutexLock lock(mutex_);
  want_flush_ = false;  // only now: what was asked for during the flush is answered by it, or will be asked for again
}

void Keeper::finish() {
  const Waiting waiting("space of what was erased");
  MutexLock lock(mutex_);
  want_end_ = true;
  wake_.notify_all();
  Clock::Time last = clock_.now();
  std::uint64_t seen = changes_;
  const auto ended = [&]() LSMFS_REQUIRES(mutex_) { return fail_stop_.failed() || !(want_end_ || busy_ || sinks_); };
  while (!ended() && clock_.now() < last + kStuck) {
    clock_.wait(lock, idle_, clock_.now() + kLook);
    if (std::exchange(seen, changes_) != changes_) last = clock_.now();
  }
}

void Keeper::sink(Erased::Work work, std::uint64_t sequence) {
  for (ErasedRange& range : joined(std::move(work.ranges))) sinking_.add({range.family, std::move(range.from), std::move(range.to), sequence});
  for (const Family family : {Family::names, Family::blocks}) {
    ErasedRows& rows = work.rows[family_number(family)];
    if (rows.rows > 0) sinking_.add({family, std::move(rows.first), std::move(rows.last), sequence});
  }
  {
    const MutexLock lock(mutex_);
    sinks_ = !sinking_.empty();  // so that changes from now on are heard of
  }
  sinking_.mark(*db_, handles_).PermitUncheckedError();  // a failure is met by whoever writes next
}

bool Keeper::merge_small_tables() {
  bool merged = false;
  for (const Family family : {Family::names, Family::blocks}) {
    merged = merge_small_neighbours(*db_, handles_[family_number(family)], targets_[family_number(family)]) || merged;
  }
  return merged;
}

void Keeper::make_space() {
  if (is_busy(*db_, handles_)) return;
  if (const auto range = worst_()) {
    const std::uint64_t sequence = db_->GetLatestSequenceNumber();
    sinking_.add({Family::blocks, range->first, range->second, sequence});
    sink({}, sequence);
  }
  if (!sinking_.empty()) return;
  flush();  // what is obsolete is so only for what is in memory
  if (merge_small_tables()) space_changed_();
}

}  // namespace lsmfs::kv
