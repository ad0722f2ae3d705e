// The states in which a power cut can leave a device, from a record of what was written to it and when it was flushed.
//
// Between two flushes a device may lose, keep and reorder what it was given, and tear a write at its sectors of 512 bytes.
// Of each such epoch: every prefix; all subsets of up to 8 requests; of more, all without one, all ones alone, and random
// ones; after each prefix the next request torn, and in some random subsets another one. States that are made of the same
// requests are given once.
#pragma once

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "volume/sparse_device.h"

namespace lsmfs::test {

struct CrashState {
  // Requests, flushes included, that had been made when the power was cut, though not all of them are there.
  std::size_t events = 0;
  std::string what;  // which one it is
  SparseImage image;
};

struct StateLimits {
  std::size_t all_subsets_up_to = 8;  // requests of an epoch
  std::size_t random_subsets = 8;     // of a larger epoch
  std::size_t torn = 1;               // ways to tear each request, by chance
  std::size_t all_cuts_up_to = 0;     // sectors of a request: each place where a device that writes in order can end
  bool last_epoch_alone = false;      // only what came after the last flush
  std::uint64_t seed = 1;
};

// Calls `visit` for each state until it returns false. `start` is what was on the device before.
void each_crash_state(const SparseImage& start, const std::vector<TraceEvent>& trace, const StateLimits& limits,
                      const std::function<bool(const CrashState&)>& visit);

}  // namespace lsmfs::test
