#include "fuse/serving/turnstile.h"

#include <chrono>

#include "lsmfs/clock.h"

namespace lsmfs {

void Turnstile::open() {
  state_ = State::open;
  state_.notify_all();
}

void Turnstile::close() {
  state_ = State::closed;
  state_.notify_all();
  const MutexLock lock(mutex_);
  // They wait for nothing but memory, so that it is not worth their time to tell when they leave.
  for (const Pass* pass : passes_) {
    while (pass->inside_) system_clock().sleep(std::chrono::microseconds(100));
  }
}

bool Turnstile::wait() const {
  state_.wait(State::not_yet);
  return !closed();
}

Turnstile::Pass::Pass(Turnstile& turnstile) : turnstile_(turnstile) {
  const MutexLock lock(turnstile_.mutex_);
  turnstile_.passes_.insert(this);
}

Turnstile::Pass::~Pass() {
  const MutexLock lock(turnstile_.mutex_);
  turnstile_.passes_.erase(this);
}

}  // namespace lsmfs
