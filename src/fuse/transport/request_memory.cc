#include "fuse/transport/request_memory.h"

#include <utility>

namespace lsmfs {

std::shared_ptr<AlignedBuffer> RequestMemory::take() {
  std::unique_ptr<AlignedBuffer> buffer;
  {
    const MutexLock lock(spares_->mutex);
    if (!spares_->buffers.empty()) {
      buffer = std::move(spares_->buffers.back());
      spares_->buffers.pop_back();
    }
  }
  if (!buffer) buffer = std::make_unique<AlignedBuffer>(size_);
  return {buffer.release(), [spares = spares_](AlignedBuffer* done) {
            std::unique_ptr<AlignedBuffer> owned(done);
            const MutexLock lock(spares->mutex);
            if (spares->buffers.size() < kSparesMost) spares->buffers.push_back(std::move(owned));
          }};
}

}  // namespace lsmfs
