// Memory that requests are read into, of one size. What its last holder lets go of is used again, since fresh pages cost more than the
// copy that is saved by holding on to a request.
//
// Threads: take() by one; its holders let go in any. It may end before they do.
#pragma once

#include <memory>
#include <vector>

#include "lsmfs/device.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class RequestMemory {
 public:
  explicit RequestMemory(std::size_t size) : size_(size) {}
  std::shared_ptr<AlignedBuffer> take();

 private:
  struct Spares {
    Mutex mutex;
    std::vector<std::unique_ptr<AlignedBuffer>> buffers LSMFS_GUARDED_BY(mutex);
  };

  static constexpr std::size_t kSparesMost = 2;  // a writer of a large file has one under way, and one on its way

  const std::size_t size_;
  const std::shared_ptr<Spares> spares_ = std::make_shared<Spares>();
};

}  // namespace lsmfs
