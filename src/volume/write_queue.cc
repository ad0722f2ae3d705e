#include "volume/write_queue.h"

#include <algorithm>

#include "volume/catalog.h"
#include "volume/frames.h"

namespace lsmfs {

void WriteQueue::hold_until(std::uint64_t round) {
  const MutexLock lock(mutex_);
  held_until_ = std::max(held_until_, round);
}

void WriteQueue::begin(Job& job) {
  const MutexLock lock(mutex_);
  job.after = held_until_;
  job.stream->under_way_.insert(job.sequence);
}

AlignedBuffer WriteQueue::buffer() {
  {
    const MutexLock lock(mutex_);
    if (!spare_.empty()) {
      AlignedBuffer buffer = std::move(spare_.back());
      spare_.pop_back();
      return buffer;
    }
  }
  return AlignedBuffer::of_any_contents(format::kFrameMax);
}

void WriteQueue::push(Job job) {
  MutexLock lock(mutex_);
  const std::uint64_t length = total_length(job.places);
  room_.wait(lock, [&]() LSMFS_REQUIRES(mutex_) { return jobs_.empty() || queued_ + length <= kBound || stopping_; });
  if (stopping_) {
    lock.unlock();
    perform(job);
    return;
  }
  if (!thread_.joinable()) thread_ = named_thread("lsmfs-log", [this] { loop(); });
  queued_ += length;
  jobs_.push_back(std::move(job));
  work_.notify_one();
}

void WriteQueue::write_now(Job job) { perform(job); }

void WriteQueue::perform(Job& job) {
  const IoFor what_it_is(job.cause);
  seal_frame(job.frame.bytes(), job.seed);
  std::uint64_t at = 0;
  // A failure, here or below, stops the volume, which is where those who wait look.
  bool written = !!journal_.reach(job.after);
  for (const Extent& place : job.places) {
    written = written && journal_.write(place.start, Bytes(job.frame.bytes()).subspan(at, place.length));
    at += place.length;
  }
  const MutexLock lock(mutex_);
  job.stream->under_way_.erase(job.sequence);
  if (!written) job.stream->first_failed_ = std::min(job.stream->first_failed_, job.sequence);
  if (spare_.size() < kSpare) spare_.push_back(std::move(job.frame));
  // Before those who wait go on: when they let go of a removed file, its space must be free then.
  job.owner.reset();
  done_.notify_all();
}

std::uint64_t WriteQueue::wait(const Stream& stream, std::uint64_t sequence) {
  MutexLock lock(mutex_);
  done_.wait(lock, [&] { return stream.under_way_.empty() || *stream.under_way_.begin() > sequence; });
  return stream.first_failed_;
}

void WriteQueue::loop() {
  MutexLock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&]() LSMFS_REQUIRES(mutex_) { return !jobs_.empty() || stopping_; });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    queued_ -= total_length(job.places);
    room_.notify_all();
    lock.unlock();
    perform(job);
    lock.lock();
  }
}

void WriteQueue::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    work_.notify_all();
    room_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace lsmfs
