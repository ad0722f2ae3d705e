#include "fuse/workers.h"

#include <algorithm>
#include <utility>

namespace lsmfs {

Workers::Workers(unsigned threads) {
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) threads_.emplace_back([this] { run(); });
}

Workers::~Workers() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_or_stop_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::submit(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(work));
  }
  work_or_stop_.notify_one();
}

void Workers::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && running_ == 0; });
}

void Workers::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_or_stop_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto work = std::move(queue_.front());
    queue_.pop_front();
    ++running_;
    lock.unlock();
    work();
    work = nullptr;  // frees its captures outside of the lock
    lock.lock();
    --running_;
    if (queue_.empty() && running_ == 0) idle_.notify_all();
  }
}

}  // namespace lsmfs
