#include "fuse/nearness/nearness.h"

#include <utility>
#include <vector>

#include "fuse/transport/message.h"

namespace lsmfs {

Result<Nearness::Prepared> Nearness::prepare(Choice latency, Choice io_uring, bool may_defer, const std::function<void(std::string_view)>& notice) {
  Prepared prepared{.may_defer = may_defer};
  LSMFS_ASSIGN(prepared.latency_device, LatencyHold::open_device(latency));
  LSMFS_ASSIGN(prepared.rings, Rings::make(io_uring, kTransferMax, notice));
  return prepared;
}

Nearness::Nearness(Prepared prepared, Means means, Clock& clock)
    : means_(std::move(means)),
      clock_(clock),
      may_defer_(prepared.may_defer),
      latency_(std::move(prepared.latency_device), clock),
      rings_(std::move(prepared.rings)) {}

void Nearness::defer(int fuse) {
  if (!may_defer_) return;
  if (!rings_) {
    follower_.emplace(fuse, [this](int processor) { means_.keep_off(processor, follower_->thread_id()); });
  }
  deference_.emplace(clock_, rings_ ? rings_->threads() : std::vector<Deferring*>{&*follower_}, means_.set_deferring);
}

void Nearness::stop_deferring() {
  if (deference_) deference_->stop();
}

void Nearness::pause_deferring() {
  if (deference_) deference_->pause();
}

void Nearness::resume_deferring() {
  if (deference_) deference_->resume();
}

void Nearness::last_request() {
  stop_deferring();
  if (follower_) follower_->go_anywhere();
}

void Nearness::stop() {
  stop_deferring();  // what follows are no requests, and those who serve go
  if (rings_) rings_->stop();
  if (rings_) rings_->close();
  follower_.reset();
}

}  // namespace lsmfs
