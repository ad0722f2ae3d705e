// The requests that wait for the disk, and which of them is next.
//
// The oldest, unless another begins where the disk stands: that one then costs no positioning, and a disk with a queue
// of its own would take it first, too. So the pieces of one large read stay one run although others came between them.
// One that comes only after the disk could have begun with the oldest is not known to it yet.
// The oldest is passed at most kPassesMax times in a row. A flush is never taken early, so nothing that came before it
// is still waiting when its turn comes.
//
// Threads: one caller at a time.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "simdisk/request.h"

namespace lsmfs::simdisk {

template <class Job>
class ServiceQueue {
 public:
  // With requests of 1 MiB, a stream holds up the others for a quarter of a second on the hard disk.
  static constexpr unsigned kPassesMax = 32;

  bool empty() const { return waiting_.empty(); }

  void push(const Request& request, Nanos arrival, Job job) { waiting_.push_back({request, arrival, std::move(job)}); }

  // Takes out the next request for a disk that stands at `position` and has nothing to do from `free` on. Must hold: !empty().
  Job pop(ByteOffset position, Nanos free) {
    auto next = waiting_.begin();
    if (passes_ < kPassesMax) {
      const Nanos begin = std::max(free, next->arrival);
      const auto on = [&](const Waiting& w) {
        return w.arrival <= begin && w.request.transfers() && w.request.offset == position;
      };
      const auto found = std::find_if(waiting_.begin(), waiting_.end(), on);
      if (found != waiting_.end()) next = found;
    }
    passes_ = next == waiting_.begin() ? 0 : passes_ + 1;
    Job job = std::move(next->job);
    waiting_.erase(next);
    return job;
  }

 private:
  struct Waiting {
    Request request;
    Nanos arrival;
    Job job;
  };
  std::deque<Waiting> waiting_;
  unsigned passes_ = 0;  // of the oldest
};

}  // namespace lsmfs::simdisk
