#include "fuse/nearness/deference.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace lsmfs {
namespace {

using namespace std::chrono_literals;

// How long a request may wait behind others.
constexpr auto kLook = 2ms;
// How long a thread has the usual policy after others have held it up, at first and at most.
constexpr Clock::Duration kPenalty = 8ms, kPenaltyMax = 512ms;

}  // namespace

Result<void> set_deferring(pid_t thread, bool defers) {
  const sched_param none{};
  if (sched_setscheduler(thread, defers ? SCHED_IDLE : SCHED_OTHER, &none) != 0) return make_error(errno, "policy of a thread");
  return {};
}

bool may_set_deferring() {
  // Tried by a thread that ends with it: it could be left with the wrong policy.
  bool both = false;
  std::thread([&both] { both = set_deferring(0, true) && set_deferring(0, false); }).join();
  return both;
}

std::vector<Deference::Watched> Deference::watched(const std::vector<Deferring*>& threads) {
  std::vector<Watched> all;
  for (Deferring* thread : threads) all.push_back({.thread = thread});
  return all;
}

Deference::Deference(Clock& clock, const std::vector<Deferring*>& threads, Set set)
    : clock_(clock),
      set_(std::move(set)),
      threads_(watched(threads)),
      activity_(clock, "lsmfs-deference", kLook,
                {.look = [this] { look(); },
                 .end =
                     [this] {
                       // Nobody looks after them now.
                       const MutexLock lock(mutex_);
                       nobody_defers();
                     }}) {}

void Deference::stop() {
  const MutexLock lock(mutex_);
  nobody_defers();
  threads_.clear();
}

void Deference::pause() {
  const MutexLock lock(mutex_);
  nobody_defers();
  paused_ = true;
}

void Deference::resume() {
  const MutexLock lock(mutex_);
  paused_ = false;
}

void Deference::nobody_defers() {
  if (paused_) return;

  for (Watched& watched : threads_) set(watched, false);
}

void Deference::look() {
  const MutexLock lock(mutex_);
  if (paused_) return;
  const auto now = clock_.now();
  for (Watched& watched : threads_) look_at(watched, now);
}

void Deference::look_at(Watched& watched, Clock::Time now) {
  const std::uint64_t turns = watched.thread->turns();
  const bool held_up = watched.thread->wanted() && turns == watched.turns;
  watched.turns = turns;
  if (watched.defers && held_up) {
    // Soon after the last time: longer.
    const bool again = now - watched.again < watched.penalty;
    watched.penalty = again ? std::min(2 * watched.penalty, kPenaltyMax) : kPenalty;
    watched.again = now + watched.penalty;
  }
  const bool defers = now >= watched.again && watched.thread->ready();
  if (defers && !watched.defers) watched.again = now;
  set(watched, defers);
}

void Deference::set(Watched& watched, bool defers) {
  if (!defers) watched.thread->let_go();
  if (watched.defers != defers && set_(watched.thread->thread_id(), defers)) watched.defers = defers;
}

}  // namespace lsmfs
