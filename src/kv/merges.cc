#include "kv/merges.h"

#include <algorithm>

namespace lsmfs::kv {

void Merges::set_space(std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    if (space_ == bytes) return;
    space_ = bytes;
  }
  changed_.notify_all();
}

void Merges::await_turn() {
  MutexLock lock(mutex_);
  changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return running_.empty() || sum() + largest_ <= space_; });
  running_[std::this_thread::get_id()] = {++begun_, largest_};
}

void Merges::chosen(std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    Merge& merge = running_[std::this_thread::get_id()];
    if (merge.place == 0) merge.place = ++begun_;  // of one that somebody runs in a thread of his own
    merge.bytes = bytes;
  }
  changed_.notify_all();
}

void Merges::ended(bool wrote) {
  {
    const MutexLock lock(mutex_);
    const auto merge = running_.extract(std::this_thread::get_id());
    if (merge && wrote) kept_.push_back({begun_, merge.mapped().bytes});
    std::uint64_t oldest = begun_ + 1;
    for (const auto& [thread, other] : running_) oldest = std::min(oldest, other.place);
    while (!kept_.empty() && kept_.front().place < oldest) kept_.pop_front();
  }
  changed_.notify_all();
}

std::uint64_t Merges::needed() const {
  const MutexLock lock(mutex_);
  return sum();
}

std::uint64_t Merges::sum() const {
  std::uint64_t bytes = 0;
  for (const auto& [thread, merge] : running_) bytes += merge.bytes;
  for (const Merge& merge : kept_) bytes += merge.bytes;
  return bytes;
}

}  // namespace lsmfs::kv
