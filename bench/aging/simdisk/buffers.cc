#include "simdisk/buffers.h"

namespace lsmfs::simdisk {

Buffers::Buffer Buffers::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      Buffer buffer(free_.back().release(), Return{this});
      free_.pop_back();
      return buffer;
    }
  }
  return Buffer(new AlignedBuffer(size_), Return{this});
}

void Buffers::Return::operator()(AlignedBuffer* buffer) const {
  std::unique_ptr<AlignedBuffer> returned(buffer);
  const std::lock_guard lock(pool->mutex_);
  if (pool->free_.size() < pool->kept_) pool->free_.push_back(std::move(returned));
}

}  // namespace lsmfs::simdisk
