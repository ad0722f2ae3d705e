#include "tree/walk_ahead.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <utility>

namespace lsmfs {
namespace {

constexpr std::size_t kMarkBytes = 64 * KiB;  // how fine the progress of walk and reader is known
constexpr auto kIdle = std::chrono::milliseconds(500);  // after this without an access the walk ends
constexpr auto kWaitMax = std::chrono::milliseconds(200);  // without any progress of the walk
// What the walk does not reach within so many bytes of rows is elsewhere. The kernel reads ahead in a file by some requests of
// 1 MiB. As far behind the reader is what may still be in the cache.
constexpr std::uint64_t kNear = 4 * MiB;
constexpr unsigned kMisledMax = 2;
// The window is a multiple of what the reader has passed, so that a short walk wastes a multiple of its length at most.
constexpr unsigned kAhead = 4;
// A reader who wants less than this part of what is walked over, of so many bytes, reads it faster by himself: to read and to
// decompress what lies between takes longer than the requests do, but on disks that seek.
constexpr unsigned kSparse = 32;
constexpr std::uint64_t kJudged = 2 * MiB;
constexpr auto kCursorAge = std::chrono::seconds(1);  // a cursor keeps the tables that have been merged since it was made

}  // namespace

WalkAhead::WalkAhead(RowReader& rows, const PrefetcherOptions& options, Mutex& mutex, std::function<bool(const WalkAhead&)> met)
    : rows_(rows),
      options_(options),
      clock_(*options.clock),
      mutex_(mutex),
      met_(std::move(met)) {}

WalkAhead::~WalkAhead() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  progress_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void WalkAhead::begin(std::string_view read, std::string_view from, std::string_view front) {
  assert(!walking_);
  walking_ = true;
  ++generation_;
  begin_ = read;
  reached_ = from;
  front_ = front;
  marks_.clear();
  behind_.clear();
  walked_ = consumed_ = passed_ = asked_ = 0;
  awaited_.clear();
  misled_ = 0;
  window_ = options_.first_window;
  resting_ = false;
  if (!thread_.joinable()) thread_ = named_thread("lsmfs-ahead", [this] { run(); });
  work_.notify_one();
}

void WalkAhead::end() {
  walking_ = false;
  work_.notify_one();
  progress_.notify_all();
}

std::optional<bool> WalkAhead::passed(std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes, std::size_t last_window) {
  last_window_ = std::max(last_window, options_.first_window);
  if (end > front_) front_ = end;
  if (begin < reached_) {
    consume(end);
  } else if (awaited_.empty()) {
    awaited_ = begin;
    awaited_from_ = walked_;
  }
  if (resting_ && (!awaited_.empty() || half_used())) {
    resting_ = false;
    work_.notify_one();
  }
  if (!bytes) return std::nullopt;
  asked_ += *bytes;
  if (passed_ < kJudged) return std::nullopt;
  const bool fair = asked_ * kSparse >= passed_;
  passed_ /= 2;  // what was long ago counts less
  asked_ /= 2;
  return fair;
}

// Whether those who were ahead lately were somebody else.
bool WalkAhead::misled() const { return misled_ >= kMisledMax; }

// The reader has passed all rows up to this key.
void WalkAhead::consume(std::string_view key) {
  const std::uint64_t before = consumed_;
  for (; !marks_.empty() && marks_.front().key <= key; marks_.pop_front()) {
    consumed_ = marks_.front().bytes;
    behind_.push_back(std::move(marks_.front()));
  }
  for (; !behind_.empty() && behind_.front().bytes + kNear < consumed_; behind_.pop_front()) begin_ = std::move(behind_.front().key);
  passed_ += consumed_ - before;
  window_ = std::clamp<std::uint64_t>(consumed_ * kAhead, options_.first_window, last_window_);
}

void WalkAhead::wait_for(MutexLock& lock, std::string_view end) {
  const std::uint64_t generation = generation_;
  const auto coming = [&] {
    return !stop_ && walking_ && generation_ == generation && reached_ < end && front_ >= end && !resting_;
  };
  for (std::uint64_t walked = walked_; coming(); walked = walked_) {
    clock_.wait(lock, progress_, clock_.now() + kWaitMax, [&] { return !coming(); });
    if (walked_ == walked) return;
  }
}

void WalkAhead::run() {
  IoFor::all_of_this_thread(IoCause::read_ahead);
  MutexLock lock(mutex_);
  while (true) {
    clock_.wait(lock, work_, Clock::kNever, [this] { return stop_ || walking_; });
    if (stop_) return;
    walk(lock);
  }
}

// Whoever was ahead has been overtaken, or he is not this walk's reader.
void WalkAhead::judge_follower() {
  if (awaited_.empty()) return;
  if (reached_ >= awaited_) {
    misled_ = 0;
    consume(front_);
    awaited_ = front_ > reached_ ? front_ : std::string();
    awaited_from_ = walked_;
  } else if (walked_ - awaited_from_ > kNear) {
    ++misled_;
    front_ = reached_;
    awaited_.clear();
  }
}

void WalkAhead::walk(MutexLock& lock) {
  const std::uint64_t generation = generation_;
  const std::string from = reached_;
  const auto current = [&] { return !stop_ && walking_ && generation_ == generation; };
  std::unique_ptr<Cursor> cursor;
  Clock::Time made;
  const auto begin_at = [&](const std::string& key) {
    cursor.reset();
    cursor = rows_.cursor(options_.family, {.lower = key, .upper = {}, .wait = Wait::yes, .readahead = options_.device_read, .fill_cache = true});
    cursor->seek(key);
    made = clock_.now();
  };
  {
    const Unlocked unlocked(mutex_);
    begin_at(from);
  }
  while (current() && cursor->valid()) {
    if (ahead_enough()) {
      const std::uint64_t consumed = consumed_;
      resting_ = true;
      progress_.notify_all();
      const bool woken = clock_.wait(lock, work_, clock_.now() + kIdle, [&] { return !current() || !resting_; });
      resting_ = false;
      if (!woken && consumed_ == consumed) break;  // the reader has stopped
      continue;
    }
    std::size_t bytes = 0;
    {
      const Unlocked unlocked(mutex_);
      while (cursor->valid() && bytes < kMarkBytes) {
        bytes += cursor->key().size() + cursor->value().size();
        cursor->next();
      }
      if (cursor->valid() && clock_.now() - made > kCursorAge) begin_at(std::string(cursor->key()));
    }
    if (!current()) break;
    walked_ += bytes;
    if (cursor->valid()) reached_.assign(cursor->key());
    marks_.push_back({reached_, walked_});
    judge_follower();
    progress_.notify_all();
    if (met_(*this)) break;
  }
  {
    const Unlocked unlocked(mutex_);
    cursor.reset();
  }
  if (current()) end();
}

}  // namespace lsmfs
