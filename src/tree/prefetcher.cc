#include "tree/prefetcher.h"

#include <algorithm>
#include <chrono>

namespace lsmfs {
namespace {

constexpr std::size_t kMarkBytes = 64 * KiB;  // how fine the progress of walker and reader is known
constexpr unsigned kBeyondMax = 32;
constexpr auto kIdle = std::chrono::milliseconds(500);  // after this without an access the walk ends
constexpr auto kWaitMax = std::chrono::milliseconds(200);  // without any progress of the walk
// What the walk does not reach within so many bytes of rows is elsewhere. The kernel reads ahead in a file by some requests of 1 MiB.
constexpr std::uint64_t kNear = 4 * MiB;
// The window is a multiple of what the reader has passed, so that a short walk wastes a multiple of its length at most.
constexpr unsigned kAhead = 4;
// A reader who wants less than this part of what is walked over, of so many bytes, reads it faster by himself: to read and to
// decompress what lies between takes longer than the requests do, but on disks that seek.
constexpr unsigned kSparse = 32;
constexpr std::uint64_t kJudged = 2 * MiB;
constexpr auto kCursorAge = std::chrono::seconds(1);  // a cursor keeps the tables that have been merged since it was made

}  // namespace

Prefetcher::Prefetcher(Store& store, const PrefetcherOptions& options)
    : store_(store), options_(options), tolerated_gap_(options.tolerated_gap), thread_([this] { run(); }) {}

Prefetcher::~Prefetcher() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  progress_.notify_all();
  thread_.join();
}

void Prefetcher::note(std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes) {
  std::lock_guard lock(mutex_);
  const bool inside = mode_ == Mode::walking && begin >= begin_ && begin < reached_;
  // A reader just ahead of the walk is about to be overtaken; one that stays ahead is somewhere else.
  const bool overtaken = mode_ == Mode::walking && begin >= reached_ && beyond_ < kBeyondMax;
  beyond_ = inside ? 0 : beyond_ + 1;
  if (inside || overtaken) {
    const std::uint64_t before = consumed_;
    while (!marks_.empty() && marks_.front().key <= end) {
      consumed_ = marks_.front().bytes;
      marks_.pop_front();
    }
    if (skipped_most(consumed_ - before, bytes)) {
      end_walk();
    } else if (consumed_ != before) {
      window_ = std::clamp<std::uint64_t>(consumed_ * kAhead, options_.first_window, options_.last_window);
      if (resting_ && half_used()) {
        resting_ = false;
        work_.notify_one();
      }
    }
  } else if (mode_ != Mode::probing && !last_end_.empty() && begin >= last_end_) {
    // Perhaps the next step of a walk. Whether rows lie between is for the thread to find out: the
    // request that reports this access must not wait for it.
    probe_from_ = last_end_;
    probe_to_.assign(begin);
    mode_ = Mode::probing;
    ++generation_;
    work_.notify_one();
  }
  last_end_.assign(end);
}

bool Prefetcher::skipped_most(std::uint64_t passed, std::optional<std::uint64_t> asked) {
  if (!asked) return false;
  passed_ += passed;
  asked_ += *asked;
  if (passed_ < kJudged) return false;
  const bool sparse = asked_ * kSparse < passed_;
  tolerated_gap_ = sparse ? options_.tolerated_gap / kSparse : options_.tolerated_gap;
  passed_ /= 2;  // what was long ago counts less
  asked_ /= 2;
  return sparse;
}

void Prefetcher::end_walk() {
  mode_ = Mode::idle;
  ++generation_;
  work_.notify_one();
  progress_.notify_all();
}

void Prefetcher::let_go() {
  std::lock_guard lock(mutex_);
  if (mode_ == Mode::idle) return;
  last_end_.clear();
  end_walk();
}

void Prefetcher::wait_for(std::string_view end) {
  std::unique_lock lock(mutex_);
  if (reached_ >= end) return;
  const std::uint64_t generation = generation_, from = walked_;
  const auto coming = [&] {
    return !stop_ && mode_ == Mode::walking && generation_ == generation && reached_ < end && !resting_ && walked_ - from < kNear;
  };
  std::uint64_t walked = 0;
  do {
    walked = walked_;
    progress_.wait_for(lock, kWaitMax, [&] { return !coming(); });
  } while (coming() && walked_ != walked);
  // Overtaken, as was expected: a reader who is faster than the device is ahead of the walk at each access.
  if (generation_ == generation && reached_ >= end) beyond_ = 0;
}

void Prefetcher::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    work_.wait(lock, [this] { return stop_ || mode_ != Mode::idle; });
    if (stop_) break;
    if (mode_ == Mode::probing) probe(lock);
    if (mode_ == Mode::walking) walk(lock);
  }
}

void Prefetcher::probe(std::unique_lock<std::mutex>& lock) {
  const std::string from = std::move(probe_from_), to = std::move(probe_to_);
  const unsigned tolerated_gap = tolerated_gap_;
  lock.unlock();
  auto cursor = store_.cursor(options_.family, {.lower = from, .upper = {}, .wait = Wait::yes});
  cursor->seek(from);
  unsigned gap = 0;
  while (cursor->valid() && cursor->key() < to && gap < tolerated_gap) {
    cursor->next();
    ++gap;
  }
  const bool near = cursor->valid() && cursor->key() >= to;
  cursor.reset();
  lock.lock();
  if (!near || mode_ != Mode::probing) {
    mode_ = Mode::idle;
    return;
  }
  mode_ = Mode::walking;
  // The reader has gone on meanwhile, hardly ever backwards.
  begin_ = to;
  reached_ = std::max(to, last_end_);
  marks_.clear();
  walked_ = consumed_ = passed_ = asked_ = 0;
  beyond_ = 0;
  window_ = options_.first_window;
}

void Prefetcher::walk(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t generation = generation_;
  std::string from = reached_;
  auto current = [&] { return !stop_ && mode_ == Mode::walking && generation_ == generation; };
  std::unique_ptr<Cursor> cursor;
  std::chrono::steady_clock::time_point made;
  const auto begin_at = [&](const std::string& key) {
    cursor.reset();
    cursor = store_.cursor(options_.family, {.lower = key, .upper = {}, .wait = Wait::yes,
                                             .readahead = options_.device_read, .fill_cache = true});
    cursor->seek(key);
    made = std::chrono::steady_clock::now();
  };
  lock.unlock();
  begin_at(from);
  lock.lock();
  while (current() && cursor->valid()) {
    if (ahead_enough()) {
      const std::uint64_t consumed = consumed_;
      resting_ = true;
      progress_.notify_all();
      work_.wait_for(lock, kIdle, [&] { return !current() || !resting_; });
      resting_ = false;
      if (consumed_ == consumed) break;  // the reader has stopped
      continue;
    }
    lock.unlock();
    std::size_t bytes = 0;
    while (cursor->valid() && bytes < kMarkBytes) {
      bytes += cursor->key().size() + cursor->value().size();
      cursor->next();
    }
    if (cursor->valid() && std::chrono::steady_clock::now() - made > kCursorAge) begin_at(std::string(cursor->key()));
    lock.lock();
    if (!current()) break;
    walked_ += bytes;
    if (cursor->valid()) reached_.assign(cursor->key());
    marks_.push_back({reached_, walked_});
    progress_.notify_all();
  }
  if (mode_ == Mode::walking && generation_ == generation) mode_ = Mode::idle;
  progress_.notify_all();
}

}  // namespace lsmfs
