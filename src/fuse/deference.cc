#include "fuse/deference.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "fuse/ring.h"

namespace lsmfs {
namespace {

using namespace std::chrono_literals;

// How long a request may wait behind others.
constexpr auto kLook = 2ms;
// How long a ring has the usual policy after others have held it up, at first and at most.
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

std::vector<Deference::Watched> Deference::watched(const std::vector<Ring*>& rings) {
  std::vector<Watched> all;
  for (Ring* ring : rings) all.push_back({.ring = ring});
  return all;
}

Deference::Deference(const std::vector<Ring*>& rings)
    : rings_(watched(rings)),
      activity_(kLook, {.look =
                            [this] {
                              const auto now = Clock::now();
                              for (Watched& watched : rings_) look(watched, now);
                            },
                        .end =
                            [this] {
                              // Nobody looks after them now.
                              for (Watched& watched : rings_) set(watched, false);
                            }}) {}

void Deference::look(Watched& watched, Clock::time_point now) {
  const std::uint64_t turns = watched.ring->turns();
  const bool held_up = watched.ring->wanted() && turns == watched.turns;
  watched.turns = turns;
  if (!watched.defers) {
    if (now >= watched.again) {
      set(watched, true);
      watched.again = now;
    }
    return;
  }
  if (held_up) {
    // Soon after the last time: longer.
    const bool again = now - watched.again < watched.penalty;
    watched.penalty = again ? std::min(2 * watched.penalty, kPenaltyMax) : kPenalty;
    watched.again = now + watched.penalty;
    set(watched, false);
  }
}

void Deference::set(Watched& watched, bool defers) {
  if (watched.defers == defers) return;
  const sched_param none{};
  if (sched_setscheduler(watched.ring->thread_id(), defers ? SCHED_IDLE : SCHED_OTHER, &none) == 0) watched.defers = defers;
}

}  // namespace lsmfs
