// kv/blob_space: what the blobs of a store take of the volume.
//
// What it is not: it asks the volume nothing. Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "kv/sizing.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class BlobSpace {
 public:
  // A blob takes so many bytes now.
  void set(std::uint64_t number, std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    put(number, bytes);
  }
  // It has another size, if it is still there.
  void resize(std::uint64_t number, std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    if (blobs_.contains(number)) put(number, bytes);
  }
  void erase(std::uint64_t number) {
    const MutexLock lock(mutex_);
    drop(number);
  }
  // All of them; and what rows take at most that are made of the largest one, before its space comes back.
  std::uint64_t taken() const {
    const MutexLock lock(mutex_);
    return taken_;
  }
  std::uint64_t beside() const {
    const MutexLock lock(mutex_);
    return sizes_.empty() ? 0 : of_rows(*sizes_.rbegin());
  }
  static constexpr std::uint64_t of_rows(std::uint64_t bytes) { return bytes + bytes / 8; }

 private:
  void put(std::uint64_t number, std::uint64_t bytes) LSMFS_REQUIRES(mutex_) {
    drop(number);
    blobs_[number] = on_volume(bytes);
    sizes_.insert(on_volume(bytes));
    taken_ += on_volume(bytes);
  }
  void drop(std::uint64_t number) LSMFS_REQUIRES(mutex_) {
    const auto found = blobs_.find(number);
    if (found == blobs_.end()) return;
    taken_ -= found->second;
    sizes_.erase(sizes_.find(found->second));
    blobs_.erase(found);
  }

  mutable Mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> blobs_ LSMFS_GUARDED_BY(mutex_);  // bytes by number
  std::multiset<std::uint64_t> sizes_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t taken_ LSMFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace lsmfs::kv
