// Has the thread that reads /dev/fuse run on its caller's processor, so that the two take turns there.
//
// The kernel wakes whoever waits for a request or for its answer on a processor that idles, if there is one, and to wake that
// takes longer than to serve most requests. So when requests keep coming from one processor, the thread binds itself to it, and
// steps back behind the caller (fuse/nearness/deference.h), who then stays as well. What it is not: of use where callers on several
// processors take turns, or where most requests are handed to workers. Then the thread is bound to none, as without it.
//
// What the daemon does beside requests (logs, flushes, merging, reading ahead) is kept off that processor meanwhile: any thread
// of it that came there would go before the one that serves, which would not get on and have to stop following.
//
// Threads: begin(), end() and go_anywhere() belong to the one that serves, all else to Deference.
#pragma once

#include <sched.h>

#include <atomic>
#include <functional>

#include "fuse/nearness/deference.h"

namespace lsmfs {

constexpr int kAnyProcessor = -1;

class Follower final : public Deferring {
 public:
  // Keeps the daemon's other threads off a processor, or lets them run anywhere again (kAnyProcessor).
  using KeepOff = std::function<void(int processor)>;

  // `fuse`: the descriptor of /dev/fuse. To be made by the thread that will serve what comes from there.
  Follower(int fuse, KeepOff keep_off);
  ~Follower() override;  // by the same

  // Around each request; `caller` is the thread that made it, 0 if nobody did. `answered`: by this thread, not by a worker.
  void begin(pid_t caller) {
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (caller != 0) caller_.store(caller, std::memory_order_relaxed);
    const int processor = processor_.load(std::memory_order_relaxed);
    if (processor != bound_) bind(processor);
  }
  void end(bool answered) {
    if (!answered) handed_on_.store(handed_on_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // At once, until it is told to be ready. The others, when they are let go.
  void go_anywhere();

  std::uint64_t turns() const override { return turns_.load(std::memory_order_relaxed); }
  bool wanted() const override;
  pid_t thread_id() const override { return thread_; }
  bool ready() override;
  void let_go() override { follow(kAnyProcessor); }

  // So many looks at a caller in the same place, and the others are kept off it anew: a thread begins where its maker may run.
  static constexpr int kRepeat = 100;
  // From so many requests on, it is known whether workers serve most. In fewer, one that waits for long would count for all.
  static constexpr int kSample = 16;

 private:
  void bind(int processor);
  void follow(int processor);
  bool answers_most();

  const int fuse_;
  const pid_t thread_;
  cpu_set_t any_;                              // where it may run
  std::atomic<std::uint64_t> turns_{0};        // odd: it serves
  std::atomic<std::uint64_t> handed_on_{0};    // requests
  std::atomic<pid_t> caller_{0};               // of the latest request
  std::atomic<int> processor_{kAnyProcessor};  // where it is to run ...
  int bound_ = kAnyProcessor;                  // ... and where it is bound to
  int last_ = kAnyProcessor;                   // where the caller was at the last look
  int looks_ = 0;                              // at which that stayed so
  struct {
    std::uint64_t requests = 0, handed_on = 0;
    bool answers_most = true;
  } before_;                                   // at the last look that took a sample
  const KeepOff keep_off_;
  int kept_off_ = kAnyProcessor;               // where the others may not run
};

// Has all threads of `process` but `server` run on all processors that this process may use but one, or on all (kAnyProcessor).
// It may have no other: then nothing changes. ESRCH: no such process.
Result<void> keep_off(int processor, pid_t server, pid_t process);

// The processor on which a thread runs, or last ran; -1 when that cannot be known. proc(5).
int processor_of(pid_t thread);

}  // namespace lsmfs
