#include "tree/group.h"

#include <cassert>
#include <utility>

namespace lsmfs {

Committer::Committer(Store& store) : store_(store), thread_(named_thread("lsmfs-commit", [this] { run(); })) {}

Committer::~Committer() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Committer::begin(Batch& batch) {
  {
    std::lock_guard lock(mutex_);
    assert(!batch_ && !outcome_);
    batch_ = &batch;
  }
  changed_.notify_all();
}

bool Committer::ended() const {
  std::lock_guard lock(mutex_);
  return outcome_.has_value();
}

Result<void> Committer::finish() {
  std::unique_lock lock(mutex_);
  assert(batch_ || outcome_);
  const Waiting waiting("a commit");
  changed_.wait(lock, [this] { return outcome_.has_value(); });
  return *std::exchange(outcome_, std::nullopt);
}

void Committer::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || batch_; });
    if (!batch_) return;
    lock.unlock();
    auto outcome = store_.commit(*batch_);
    lock.lock();
    batch_ = nullptr;
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }
}

}  // namespace lsmfs
