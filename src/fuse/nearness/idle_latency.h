// Holds the CPUs out of deep idle states while requests are in flight.
//
// Every request wakes two sleeping threads; when the CPU under one of them has gone idle, waking it
// costs several times what the request itself does. A 0 in /dev/cpu_dma_latency keeps CPUs polling. A
// helper thread writes it when requests come, and takes it back some milliseconds after the last one,
// so that an idle mount costs no power. The kernel takes it back itself when the descriptor is closed.
//
// Threads: request() from any thread, cheap enough for every request.
#pragma once

#include <optional>
#include <string>

#include "fuse/nearness/activity.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

class LatencyHold {
 public:
  // To be had while there still is the privilege for it. automatic: an empty one when it cannot be opened; on: that is
  // an error (EACCES, ENOENT, ...); off: an empty one.
  static Result<Fd> open_device(Choice mode, const std::string& path = "/dev/cpu_dma_latency");

  LatencyHold(Fd device, Clock& clock);  // with an empty device it does nothing

  // Says that a request has come.
  void request() {
    if (activity_) activity_->request();
  }

 private:
  const Fd device_;
  std::optional<Activity> activity_;
};

}  // namespace lsmfs
