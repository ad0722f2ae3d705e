// Nearness: what is done so that a request and its answer wake nobody far away. Waking a processor takes longer than to serve most
// requests. Four cures, and which of them there are is decided here alone:
//   Rings        a queue and a thread for each processor, where the kernel has FUSE over io_uring
//   Follower     else: the one thread runs on its caller's processor
//   Deference    those who serve step back behind their callers, who then stay where they are
//   LatencyHold  processors stay out of deep idle states while requests come
// docs/design/13-wake-ups.md says why, and what else was tried.
//
// Threads: what is said of a request, by the thread that serves it; last_request() and what is said of deferring from any; all else by the
// thread that reads /dev/fuse.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "fuse/nearness/deference.h"
#include "fuse/nearness/follower.h"
#include "fuse/nearness/idle_latency.h"
#include "fuse/transport/rings.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

class Nearness {
 public:
  // What of it takes privileges to make.
  struct Prepared {
    Fd latency_device;             // of LatencyHold; empty: there is none
    std::unique_ptr<Rings> rings;  // null: requests come through /dev/fuse
    bool may_defer = false;        // as may_set_deferring()
  };
  // Errors: those of LatencyHold::open_device() and Rings::make().
  static Result<Prepared> prepare(Choice latency, Choice io_uring, bool may_defer, const std::function<void(std::string_view)>& notice);

  // What takes privileges later.
  struct Means {
    Deference::Set set_deferring;
    std::function<void(int processor, pid_t server)> keep_off;  // as lsmfs::keep_off(), of this process
  };

  Nearness(Prepared prepared, Means means, Clock& clock);
  ~Nearness() { stop(); }

  Rings* rings() const { return rings_.get(); }  // null: there are none, or not any more
  void do_without_rings() { rings_.reset(); }
  // Who serves requests steps back behind their callers from now on, if it may. `fuse`: the descriptor of /dev/fuse. The rings, if there
  // are to be any, have been started.
  void defer(int fuse);

  // A request has come.
  void request() {
    latency_.request();
    if (deference_) deference_->request();
  }
  // Around each that was read from /dev/fuse; `caller` is the thread that made it, 0 if nobody did. `answered`: not by a worker.
  void begin(pid_t caller) {
    if (follower_) follower_->begin(caller);
  }
  void end(bool answered) {
    if (follower_) follower_->end(answered);
  }

  // For good: nobody steps back any more.
  void stop_deferring();
  // Nobody does, nor are Nearness::Means called, from the one to the other. By one thread.
  void pause_deferring();
  void resume_deferring();
  // Nobody waits for what the thread that serves the last request does now, nor should it wait for others. By that thread.
  void last_request();
  // No more requests are served.
  void stop();

 private:
  const Means means_;
  Clock& clock_;
  const bool may_defer_;
  LatencyHold latency_;
  std::unique_ptr<Rings> rings_;
  std::optional<Follower> follower_;    // without rings
  std::optional<Deference> deference_;  // of those who serve
};

}  // namespace lsmfs
