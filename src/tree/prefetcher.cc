#include "tree/prefetcher.h"

#include <algorithm>
#include <utility>

namespace lsmfs {
namespace {

// After a reader who skips most of what he passes, the gap that begins a walk is smaller by this.
constexpr unsigned kLessGap = 32;
// Looking at a candidate reads some rows, in vain when the reads are random: of so many, one is looked at then.
constexpr unsigned kPassedOverMax = 31;

}  // namespace

Prefetcher::Prefetcher(RowReader& rows, const PrefetcherOptions& options)
    : rows_(rows), options_(options), tolerated_gap_(options.tolerated_gap) {
  walks_.reserve(options.walks);
  thread_ = named_thread("lsmfs-prefetch", [this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  thread_.join();
  std::vector<std::unique_ptr<WalkAhead>> walks;  // their threads look at walks_
  MutexLock lock(mutex_);
  walks.swap(walks_);
  lock.unlock();
}

void Prefetcher::note(std::string_view begin, std::string_view end, Wait wait, std::optional<std::uint64_t> bytes) {
  const MutexLock lock(mutex_);
  WalkAhead* walk = claiming(begin);
  if (!walk || !walk->has_passed(begin)) {
    const Nearest before = nearest(begin);
    if (before.walk && before.walk->is_followed_at(begin)) walk = before.walk;
    if (!walk && wait == Wait::yes && before.end) consider(before, begin, end);
    remember(end);  // last: it may take the place of what was nearest
  }
  if (walk) advance(*walk, begin, end, bytes);
}

// The walk to whose reader an access belongs, as far as he is known to have come: that which has passed it, or is the closest.
WalkAhead* Prefetcher::claiming(std::string_view begin) {
  WalkAhead* closest = nullptr;
  for (const auto& walk : walks_) {
    if (walk->has_passed(begin)) return walk.get();
    if (walk->claims(begin) && (!closest || walk->reached() > closest->reached())) closest = walk.get();
  }
  return closest;
}

// The latest end of an access that lies before a key.
Prefetcher::Nearest Prefetcher::nearest(std::string_view begin) {
  Nearest found;
  const auto look_at = [&](const std::string& end, WalkAhead* walk) {
    if (!end.empty() && end <= begin && (!found.end || end > *found.end)) found = {&end, walk};
  };
  for (const auto& walk : walks_) {
    if (walk->walking()) look_at(walk->front(), walk.get());
  }
  for (const auto& walk : walks_) {
    if (!walk->walking()) look_at(walk->front(), nullptr);
  }
  for (const std::string& end : ends_) look_at(end, nullptr);
  return found;
}

void Prefetcher::remember(std::string_view end) {
  if (ends_[latest_] == end) return;  // reported twice: before and after its rows were missing
  latest_ = (latest_ + 1) % ends_.size();
  ends_[latest_].assign(end);
}

// Perhaps the next step of a walk that nobody runs ahead of.
void Prefetcher::consider(const Nearest& before, std::string_view begin, std::string_view end) {
  if (candidate_) {
    if (*before.end == candidate_->front) candidate_->front.assign(end);
    return;
  }
  if (*before.end == begin) {
    if (WalkAhead* const walk = idle_walk()) return walk->begin(begin, begin, end);
  } else if (passed_over_ < to_pass_over_) {
    ++passed_over_;
    return;
  }
  passed_over_ = 0;
  candidate_ = {.from = *before.end, .to = std::string(begin), .front = std::string(end)};
  work_.notify_one();
}

void Prefetcher::advance(WalkAhead& walk, std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes) {
  const auto walking = static_cast<std::size_t>(std::ranges::count_if(walks_, [](const auto& some) { return some->walking(); }));
  const auto fair = walk.passed(begin, end, bytes, options_.last_window / std::max<std::size_t>(1, walking));
  if (!fair) return;
  tolerated_gap_ = *fair ? options_.tolerated_gap : options_.tolerated_gap / kLessGap;
  if (!*fair) walk.end();
}

bool Prefetcher::met(const WalkAhead& walk) const {
  return std::ranges::any_of(walks_, [&](const auto& other) { return other.get() != &walk && other->has_passed(walk.reached()); });
}

WalkAhead* Prefetcher::idle_walk() {
  const auto found = std::ranges::find_if(walks_, [](const auto& walk) { return !walk->walking(); });
  return found == walks_.end() ? nullptr : found->get();
}

void Prefetcher::let_go() {
  const MutexLock lock(mutex_);
  for (const auto& walk : walks_) {
    if (walk->walking()) walk->end();
    walk->forget_reader();
  }
  ends_.fill({});
}

void Prefetcher::wait_for(std::string_view begin, std::string_view end) {
  MutexLock lock(mutex_);
  if (WalkAhead* const walk = claiming(begin)) walk->wait_for(lock, end);
}

std::size_t Prefetcher::threads() const {
  const MutexLock lock(mutex_);
  return 1 + walks_.size();
}

void Prefetcher::run() {
  IoFor::all_of_this_thread(IoCause::read_ahead);
  MutexLock lock(mutex_);
  while (true) {
    options_.clock->wait(lock, work_, Clock::kNever, [this]() LSMFS_REQUIRES(mutex_) { return stop_ || candidate_; });
    if (stop_) return;
    const Candidate candidate = *candidate_;
    WalkAhead* walk = idle_walk();
    if (walk || walks_.size() < walks_.capacity()) {
      const unsigned tolerated_gap = tolerated_gap_;
      lock.unlock();
      const bool near = is_near(candidate, tolerated_gap);
      lock.lock();
      if (near && !walk) {
        const auto has_met = [this](const WalkAhead& some) LSMFS_REQUIRES(mutex_) { return met(some); };
        walk = walks_.emplace_back(std::make_unique<WalkAhead>(rows_, options_, mutex_, has_met)).get();
      }
      to_pass_over_ = near ? 0 : std::min(2 * to_pass_over_ + 1, kPassedOverMax);
      // The reader has gone on meanwhile.
      if (near && !walk->walking() && !stop_) walk->begin(candidate.to, candidate_->front, candidate_->front);
    }
    candidate_.reset();
  }
}

bool Prefetcher::is_near(const Candidate& candidate, unsigned tolerated_gap) {
  if (candidate.from == candidate.to) return true;
  const auto cursor = rows_.cursor(options_.family, {.lower = candidate.from, .upper = {}, .wait = Wait::yes});
  cursor->seek(candidate.from);
  unsigned gap = 0;
  while (cursor->valid() && cursor->key() < candidate.to && gap < tolerated_gap) {
    cursor->next();
    ++gap;
  }
  return cursor->valid() && cursor->key() >= candidate.to;
}

}  // namespace lsmfs
