// Holds the CPUs out of deep idle states while requests are in flight.
//
// Every request wakes two sleeping threads; when the CPU under one of them has gone idle, waking it
// costs several times what the request itself does. Writing a 0 to /dev/cpu_dma_latency keeps CPUs
// polling for as long as the descriptor is open. A helper thread opens it when requests come and
// closes it some milliseconds after the last one, so that an idle mount costs no power.
//
// Threads: request() from any thread, cheap enough for every request.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "lsmfs/base.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

class LatencyHold {
 public:
  // automatic: a hold that does nothing when the device cannot be opened. on: that is an error
  // (EACCES, ENOENT, ...). off: does nothing.
  static Result<std::unique_ptr<LatencyHold>> start(IdleLatency mode,
                                                    const std::string& device = "/dev/cpu_dma_latency");
  ~LatencyHold();
  LatencyHold(const LatencyHold&) = delete;
  LatencyHold& operator=(const LatencyHold&) = delete;

  // Says that a request has come.
  void request() {
    beat_.fetch_add(1, std::memory_order_relaxed);
    if (asleep_.load(std::memory_order_relaxed)) wake();
  }

 private:
  explicit LatencyHold(std::string device);
  void run();
  void wake();

  std::string device_;
  std::atomic<std::uint32_t> beat_{0};
  std::atomic<bool> asleep_{false};  // true only while the helper thread waits for a request
  std::atomic<bool> stopping_{false};
  std::thread helper_;
};

}  // namespace lsmfs
