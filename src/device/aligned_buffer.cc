#include <cstdlib>
#include <cstring>
#include <new>

#include "lsmfs/device.h"

namespace lsmfs {

AlignedBuffer::AlignedBuffer(std::size_t size) : size_(round_up(size, kDeviceBlock)) {
  if (size_ == 0) return;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kDeviceBlock, size_)));
  if (!data_) throw std::bad_alloc();
  std::memset(data_.get(), 0, size_);
}

void AlignedBuffer::Free::operator()(std::byte* p) const { std::free(p); }

}  // namespace lsmfs
