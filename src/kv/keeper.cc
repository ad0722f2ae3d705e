#include "kv/keeper.h"

#include <rocksdb/options.h>

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "kv/compact.h"
#include "kv/database.h"
#include "kv/options.h"

namespace lsmfs::kv {

namespace {

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
  if (stop_) {  // it was stopped for a while
    stop_ = false;
    db->EnableManualCompaction();
  }
  db_ = db;
  std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
  thread_ = named_thread("lsmfs-keeper", [this] { run(); });
}

void Keeper::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  const Waiting waiting("background work, which ends");
  if (db_ != nullptr) db_->DisableManualCompaction();  // ends one that is running
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  db_ = nullptr;  // it may go away from now on
}

void Keeper::want_flush() {
  {
    std::lock_guard lock(mutex_);
    if (want_flush_) return;
    want_flush_ = true;
  }
  wake_.notify_all();
}

void Keeper::want_space() {
  {
    std::lock_guard lock(mutex_);
    if (want_space_) return;
    want_space_ = true;
  }
  wake_.notify_all();
}

void Keeper::note(const std::vector<ErasedRange>& ranges, const ErasedRows (&rows)[2]) {
  if (ranges.empty() && rows[0].rows + rows[1].rows == 0) return;
  std::lock_guard lock(mutex_);
  const Clock::Time before = erased_.due();
  erased_.note(ranges, rows, clock_.now());
  if (erased_.due() < before) wake_.notify_all();
}

void Keeper::note_passed(Family family, std::string_view from, std::string_view to, std::uint64_t rows) {
  std::lock_guard lock(mutex_);
  const Clock::Time before = erased_.due();
  erased_.passed(family, from, to, rows);
  if (erased_.due() < before) wake_.notify_all();
}

void Keeper::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Clock::Time now = clock_.now(), due = erased_.due();
    if (!want_flush_ && !want_space_ && now < due) {
      clock_.wait(lock, wake_, due);
      continue;
    }
    if (fail_stop_.failed()) {
      want_flush_ = want_space_ = false;
      erased_.take_all();
      continue;
    }
    const bool space = want_space_, flushes = want_flush_ || now >= due;
    Erased::Work work = space ? erased_.take_all() : erased_.take(now);
    busy_ = true;
    lock.unlock();
    if (flushes || !work.empty()) flush();
    if (!work.empty()) {
      reclaim(std::move(work));
    } else if (space) {
      make_space();
    }
    lock.lock();
    if (space) want_space_ = false;  // whoever waits still says so again
    busy_ = false;
    idle_.notify_all();
  }
}

void Keeper::flush() {
  // A failure is RocksDB's background error, which the listener hears of.
  if (db_->Flush(flush_options(), {handles_[0], handles_[1]}).ok()) flushed_();
  std::lock_guard lock(mutex_);
  want_flush_ = false;  // only now: what was asked for during the flush is answered by it, or will be asked for again
}

void Keeper::flush_if_wanted() {
  {
    std::lock_guard lock(mutex_);
    if (!want_flush_) return;
  }
  flush();
}

void Keeper::finish() {
  Erased::Work work;
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !busy_; });
    work = erased_.take_all();
  }
  if (work.empty()) return;
  flush();
  reclaim(std::move(work));
}

void Keeper::reclaim(Erased::Work work) {
  work.ranges = joined(std::move(work.ranges));
  auto range = work.ranges.begin();
  while (range != work.ranges.end() && compact(range->family, range->from, range->to)) ++range;
  work.ranges.erase(work.ranges.begin(), range);
  bool done = work.ranges.empty();
  for (const Family family : {Family::names, Family::blocks}) {
    ErasedRows& rows = work.rows[family_number(family)];
    if (rows.rows > 0) done = done && compact(family, rows.first, rows.last);
    if (done) rows = {};
  }
  {
    std::lock_guard lock(mutex_);
    if (stop_) {
      erased_.note(work.ranges, work.rows, clock_.now());  // nothing is wrong with it: it was interrupted
    } else {
      erased_.give_back(work, clock_.now());
    }
  }
  space_changed_();
}

void Keeper::make_space() {
  if (is_busy(*db_, handles_)) return;
  flush();  // what is obsolete may be so only for what is in memory
  const auto range = worst_();
  if (range && compact(Family::blocks, range->first, range->second)) space_changed_();
}

bool Keeper::compact(Family family, const std::string& from, const std::string& to) {
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  // What lies at the bottom is rewritten only where tombstones from above meet it.
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kSkip;
  // The log goes on growing meanwhile, and it may take minutes.
  return compact_in_pieces(*db_, handles_[family_number(family)], options, from, to, piece_, [this] { flush_if_wanted(); }).ok();
}

}  // namespace lsmfs::kv
