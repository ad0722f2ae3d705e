// Has the threads of rings step back behind their callers, so that a caller stays on its processor.
//
// When an answer wakes its caller, the kernel looks for a processor that idles; the one on which the answer is given does
// not, so the caller moves to another one, which has to be woken, with each request. A processor that runs nothing but
// threads of the policy SCHED_IDLE counts as one that idles, however: then the caller stays. On a virtual machine with two
// processors a request took 6 us instead of 13.
//
// The price of that policy is that such a thread waits for as long as anybody else wants its processor. So this object
// looks after the rings every few milliseconds while requests come: one that has not got on with its requests since the
// last look is given back the usual policy, for longer each time this happens again.
//
// Threads: request() from any; it has one of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "fuse/activity.h"

namespace lsmfs {

class Ring;

class Deference {
 public:
  // Whether this process may take the policy back, which takes a limit that only root can raise. To be called while there
  // are the rights for it.
  static bool permit();

  // The rings have been started; they must outlive it.
  explicit Deference(const std::vector<Ring*>& rings);

  // Says that a request has come.
  void request() { activity_.request(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Watched {
    Ring* ring;
    bool defers = false;
    std::uint64_t turns = 0;         // of the ring, at the last look
    Clock::time_point again{};       // when it may defer again, or since when it does
    Clock::duration penalty{};       // how long it did not the last time
  };

  static std::vector<Watched> watched(const std::vector<Ring*>& rings);
  static void look(Watched& watched, Clock::time_point now);
  static void set(Watched& watched, bool defers);

  std::vector<Watched> rings_;
  Activity activity_;
};

}  // namespace lsmfs
