// What send and receive show on a terminal while they go on: how much data, and how fast.
#pragma once

#include <cstdint>
#include <string>

#include "cli/progress_line.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {

class ShownProgress {
 public:
  ShownProgress(std::string path, bool quiet) : path_(std::move(path)), quiet_(quiet) {}
  void tell(std::uint64_t bytes);  // of data so far
  void clear() { line_.clear(); }

 private:
  const std::string path_;
  const bool quiet_;
  ProgressLine line_;
  const Clock::Time began_ = system_clock().now();
  Clock::Time told_ = began_;
};

}  // namespace lsmfs::cli
