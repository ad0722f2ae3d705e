// Memory for the data of requests, used again and again, and aligned so that it can go to the device and to the kernel
// as it is.
//
// Threads: all functions from any thread.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "lsmfs/device.h"

namespace lsmfs::simdisk {

class Buffers {
 public:
  // Returns its memory to the pool when it goes. The pool must outlive it.
  struct Return {
    Buffers* pool;
    void operator()(AlignedBuffer* buffer) const;
  };
  using Buffer = std::unique_ptr<AlignedBuffer, Return>;

  // `kept`: how many it keeps at most. A new one is filled with zeros first, which takes its time.
  Buffers(std::size_t size, std::size_t kept) : size_(size), kept_(kept) {}
  Buffer take();  // of the pool's size

 private:
  const std::size_t size_, kept_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<AlignedBuffer>> free_;  // guarded by mutex_; the last was used last, so its pages are warm
};

}  // namespace lsmfs::simdisk
