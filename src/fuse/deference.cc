#include "fuse/deference.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

namespace lsmfs {
namespace {

using namespace std::chrono_literals;

// How long a request may wait behind others.
constexpr auto kLook = 2ms;
// How long a thread has the usual policy after others have held it up, at first and at most.
constexpr std::chrono::steady_clock::duration kPenalty = 50ms, kPenaltyMax = 3200ms;

// setrlimit(2): 20 minus the nice value, which comes back with the usual policy, and which renice(1) may change.
constexpr rlim_t kAnyNice = 40;

}  // namespace

bool Deference::permit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NICE, &limit) != 0) return false;
  const bool enough_now = limit.rlim_cur >= static_cast<rlim_t>(20 - getpriority(PRIO_PROCESS, 0));
  limit.rlim_cur = std::max(limit.rlim_cur, kAnyNice);
  limit.rlim_max = std::max(limit.rlim_max, kAnyNice);
  return setrlimit(RLIMIT_NICE, &limit) == 0 || enough_now;
}

std::vector<Deference::Watched> Deference::watched(const std::vector<Deferring*>& threads) {
  std::vector<Watched> all;
  for (Deferring* thread : threads) all.push_back({.thread = thread});
  return all;
}

Deference::Deference(const std::vector<Deferring*>& threads)
    : threads_(watched(threads)),
      activity_(kLook, {.look =
                            [this] {
                              const auto now = Clock::now();
                              for (Watched& watched : threads_) look(watched, now);
                            },
                        .end =
                            [this] {
                              // Nobody looks after them now.
                              for (Watched& watched : threads_) set(watched, false);
                            }}) {}

void Deference::look(Watched& watched, Clock::time_point now) {
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
  if (watched.defers == defers) return;
  const sched_param none{};
  if (sched_setscheduler(watched.thread->thread_id(), defers ? SCHED_IDLE : SCHED_OTHER, &none) == 0) watched.defers = defers;
}

}  // namespace lsmfs
