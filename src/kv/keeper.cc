#include "kv/keeper.h"

#include <rocksdb/options.h>

#include <chrono>
#include <iterator>
#include <utility>

namespace lsmfs::kv {

namespace {

constexpr auto kRangesRest = std::chrono::seconds(10);  // ranges wait this long for more of them

}  // namespace

void Keeper::start(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  db_ = db;
  std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
  thread_ = std::thread([this] { run(); });
}

void Keeper::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
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

void Keeper::run() {
  using std::chrono::steady_clock;
  constexpr auto kNever = steady_clock::time_point::max();
  auto ranges_due = kNever;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto pending = [&] { return stop_ || want_flush_ || ranges_.size() >= kRangesToFlush; };
    if (!ranges_.empty() && ranges_due == kNever) ranges_due = steady_clock::now() + kRangesRest;
    if (ranges_due != kNever) {
      wake_.wait_until(lock, ranges_due, pending);
    } else {
      wake_.wait(lock, [&] { return pending() || !ranges_.empty(); });
      if (!pending()) continue;  // the first range: now its time runs
    }
    if (stop_ || fail_stop_.failed()) {
      want_flush_ = false;
      ranges_.clear();
      ranges_due = kNever;
      continue;
    }
    const bool ranges_ready =
        ranges_.size() >= kRangesToFlush || (!ranges_.empty() && steady_clock::now() >= ranges_due);
    std::vector<ErasedRange> ranges;
    if (ranges_ready) {
      ranges.swap(ranges_);
      ranges_due = kNever;
    }
    if (!ranges_ready && !want_flush_) continue;
    lock.unlock();
    flush();
    suggest(ranges);
    lock.lock();
    want_flush_ = false;  // only now: what was asked for during the flush is answered by it
  }
}

void Keeper::flush() {
  rocksdb::FlushOptions options;
  options.wait = true;               // this thread has nothing better to do
  options.allow_write_stall = true;  // a flush is what ends a stall
  // A failure is RocksDB's background error, which the listener hears of.
  db_->Flush(options, {handles_[0], handles_[1]}).PermitUncheckedError();
}

void Keeper::suggest(const std::vector<ErasedRange>& ranges) {
  for (const auto& range : ranges) {
    const rocksdb::Slice from(range.from), to(range.to);
    // Advice: a version that does not know it goes on without.
    db_->SuggestCompactRange(handles_[static_cast<int>(range.family)], &from, &to).PermitUncheckedError();
  }
}

}  // namespace lsmfs::kv
