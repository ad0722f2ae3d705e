#include "fuse/turnstile.h"

namespace lsmfs {

void Turnstile::open() {
  state_ = State::open;
  state_.notify_all();
}

void Turnstile::close() {
  state_ = State::closed;
  state_.notify_all();
  const std::lock_guard lock(mutex_);
  for (const Pass* pass : passes_) pass->inside_.wait(true);
}

bool Turnstile::wait() const {
  state_.wait(State::not_yet);
  return !closed();
}

Turnstile::Pass::Pass(Turnstile& turnstile) : turnstile_(turnstile) {
  const std::lock_guard lock(turnstile_.mutex_);
  turnstile_.passes_.insert(this);
}

Turnstile::Pass::~Pass() {
  const std::lock_guard lock(turnstile_.mutex_);
  turnstile_.passes_.erase(this);
}

}  // namespace lsmfs
