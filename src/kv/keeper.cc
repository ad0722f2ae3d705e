#include "kv/keeper.h"

#include <rocksdb/options.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <tuple>
#include <utility>

#include "kv/compact.h"
#include "kv/options.h"

namespace lsmfs::kv {

namespace {

constexpr auto kRest = std::chrono::seconds(10);   // what was erased waits this long for more of it
constexpr auto kTired = std::chrono::seconds(60);  // what could not be compacted, this long

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

void Keeper::note_ranges(const std::vector<ErasedRange>& ranges) {
  if (ranges.empty()) return;
  {
    std::lock_guard lock(mutex_);
    ranges_.insert(ranges_.end(), ranges.begin(), ranges.end());
  }
  wake_.notify_all();
}

void Keeper::note_rows(Family family, const ErasedRows& rows) {
  if (rows.rows == 0) return;
  std::lock_guard lock(mutex_);
  rows_[family_number(family)].add(rows.first, rows.last, rows.rows);
  if (rows_hold(worth_ / 2)) wake_.notify_all();
}

// A row of blocks has up to 4 KiB, a name's record some 150 bytes.
bool Keeper::rows_hold(std::uint64_t bytes) const { return rows_[0].rows * 150 + rows_[1].rows * 4096 >= bytes; }

void Keeper::run() {
  using std::chrono::steady_clock;
  constexpr auto kNever = steady_clock::time_point::max();
  auto due = kNever;
  bool failed = false;  // what was erased could not be compacted just now: it rests, however much it is
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto resting = [&] { return !ranges_.empty() || rows_hold(worth_ / 2); };
    const auto much = [&] { return !failed && (ranges_.size() >= kRangesToFlush || rows_hold(worth_)); };
    const auto pending = [&] { return stop_ || want_flush_ || much(); };
    if (!resting()) {
      due = kNever;
    } else if (due == kNever) {
      due = steady_clock::now() + (failed ? kTired : kRest);
    }
    if (due != kNever) {
      wake_.wait_until(lock, due, pending);
    } else {
      wake_.wait(lock, [&] { return pending() || resting(); });
      if (!pending()) continue;  // now its time runs
    }
    if (stop_) break;
    if (fail_stop_.failed()) {
      want_flush_ = false;
      ranges_.clear();
      for (auto& rows : rows_) rows = {};
      continue;
    }
    const bool rested = steady_clock::now() >= due;
    std::vector<ErasedRange> ranges;
    if (rested || (!failed && ranges_.size() >= kRangesToFlush)) ranges.swap(ranges_);
    ErasedRows rows[2];
    if (rested ? rows_hold(worth_ / 2) : !failed && rows_hold(worth_)) std::swap(rows, rows_);
    const bool worth = rows[0].rows + rows[1].rows > 0;
    if (ranges.empty() && !want_flush_ && !worth) continue;
    if (rested) due = kNever;
    busy_ = true;
    lock.unlock();
    flush();
    if (!ranges.empty() || worth) {
      failed = !reclaim(std::move(ranges), rows);
      if (failed) due = kNever;  // its time begins anew
    }
    lock.lock();
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
  std::vector<ErasedRange> ranges;
  ErasedRows rows[2];
  {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return !busy_; });
    ranges.swap(ranges_);
    std::swap(rows, rows_);
  }
  if (ranges.empty() && rows[0].rows + rows[1].rows == 0) return;
  flush();
  reclaim(std::move(ranges), rows);
}

bool Keeper::reclaim(std::vector<ErasedRange> ranges, ErasedRows (&rows)[2]) {
  ranges = joined(std::move(ranges));
  auto range = ranges.begin();
  while (range != ranges.end() && compact(range->family, range->from, range->to)) ++range;
  bool done = range == ranges.end();
  for (const Family family : {Family::names, Family::blocks}) {
    ErasedRows& erased = rows[family_number(family)];
    if (erased.rows > 0) done = done && compact(family, erased.first, erased.last);
    if (done) erased = {};
  }
  {
    std::lock_guard lock(mutex_);
    ranges_.insert(ranges_.end(), range, ranges.end());
    for (const Family family : {Family::names, Family::blocks}) {
      const ErasedRows& left = rows[family_number(family)];
      if (left.rows > 0) rows_[family_number(family)].add(left.first, left.last, left.rows);
    }
  }
  space_changed_();
  return done;
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
