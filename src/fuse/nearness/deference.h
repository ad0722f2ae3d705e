// Has threads that serve requests step back behind their callers, so that a caller stays on its processor.
//
// When an answer wakes its caller, the kernel looks for a processor that idles; the one on which the answer is given does
// not, so the caller moves to another one, which has to be woken, with each request. A processor that runs nothing but
// threads of the policy SCHED_IDLE counts as one that idles, however: then the caller stays. On a virtual machine with two
// processors a request took 6 us instead of 13.
//
// The price of that policy is that such a thread waits for as long as anybody else wants its processor. So this object
// looks after them every few milliseconds while requests come: one that has not got on with its requests since the
// last look is given back the usual policy, for longer each time this happens again.
//
// Threads: all functions from any; it has one of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "fuse/nearness/activity.h"
#include "fuse/transport/deferring.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

// Gives a thread the policy SCHED_IDLE, or takes it back. Errors: sched_setscheduler(2).
Result<void> set_deferring(pid_t thread, bool defers);
// Whether this process may do both: to take it back takes CAP_SYS_NICE or a limit, RLIMIT_NICE, that only root can raise.
bool may_set_deferring();

class Deference {
 public:
  using Set = std::function<Result<void>(pid_t thread, bool defers)>;

  // The threads have been started, and are there until stop(). `set` does as set_deferring().
  Deference(Clock& clock, const std::vector<Deferring*>& threads, Set set);
  ~Deference() { stop(); }

  // Says that a request has come.
  void request() { activity_.request(); }
  // For good: nobody defers any more.
  void stop();
  // Nobody defers, nor is `set` called, from the one to the other.
  void pause();
  void resume();

 private:
  struct Watched {
    Deferring* thread;
    bool defers = false;
    std::uint64_t turns = 0;    // at the last look
    Clock::Time again{};        // when it may defer again, or since when it does
    Clock::Duration penalty{};  // how long it did not the last time
  };

  static std::vector<Watched> watched(const std::vector<Deferring*>& threads);
  void look();
  void look_at(Watched& watched, Clock::Time now) LSMFS_REQUIRES(mutex_);
  void nobody_defers() LSMFS_REQUIRES(mutex_);
  void set(Watched& watched, bool defers) LSMFS_REQUIRES(mutex_);

  Clock& clock_;
  const Set set_;
  Mutex mutex_;
  std::vector<Watched> threads_ LSMFS_GUARDED_BY(mutex_);  // none after stop()
  bool paused_ LSMFS_GUARDED_BY(mutex_) = false;
  Activity activity_;
};

}  // namespace lsmfs
