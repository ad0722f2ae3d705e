#include "fuse/serving/workers.h"

#include <algorithm>
#include <utility>

namespace lsmfs {

Workers::Workers(unsigned threads, const char* name, Clock& clock, Ended ended) : clock_(clock), ended_(std::move(ended)) {
  for (unsigned i = 0; i < std::max(threads, 1u); ++i) threads_.push_back(named_thread(name, [this] { run(); }));
}

Workers::~Workers() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    while (!idlers_.empty()) call_idler();
  }
  for (auto& thread : threads_) thread.join();
}

void Workers::submit(std::function<void()> work) {
  Request request = current_request;
  if (request.opcode != 0) ++handed_on;
  if (request.since == Clock::Time{}) request.since = clock_.now();
  const MutexLock lock(mutex_);
  queue_.push_back({std::move(work), request});
  if (!idlers_.empty()) call_idler();
}

void Workers::call_idler() {
  Idler* const idler = idlers_.back();
  idlers_.pop_back();
  idler->is_called = true;
  idler->called.notify_one();
}

void Workers::drain() {
  MutexLock lock(mutex_);
  all_done_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return queue_.empty() && running_.empty(); });
}

std::vector<UnderWay> Workers::under_way() const {
  std::vector<UnderWay> all;
  const MutexLock lock(mutex_);
  for (const Running& job : running_) {
    const std::string waits = job.waits->text();
    all.push_back({job.request, waits.empty() ? "at work" : waits});
  }
  for (const Job& job : queue_) all.push_back({job.request, "a worker, since all have work"});
  return all;
}

void Workers::run() {
  IoFor::all_of_this_thread(IoCause::miss);
  const Waits& waits = Waits::of_this_thread();
  Idler idler;
  MutexLock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      if (stopping_) return;
      idler.is_called = false;
      idlers_.push_back(&idler);
      idler.called.wait(lock, [&] { return idler.is_called; });
      continue;
    }
    Job job = std::move(queue_.front());
    queue_.pop_front();
    const auto place = running_.insert(running_.end(), Running{job.request, &waits});
    lock.unlock();
    current_request = job.request;
    const std::uint64_t before = handed_on;
    job.work();
    job.work = nullptr;  // frees its captures outside of the lock
    if (ended_ && job.request.opcode != 0 && handed_on == before) ended_(job.request);
    current_request = {};
    lock.lock();
    running_.erase(place);
    if (queue_.empty() && running_.empty()) all_done_.notify_all();
  }
}

}  // namespace lsmfs
