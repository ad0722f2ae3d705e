#include <cstdlib>
#include <cstring>
#include <new>

#include "lsmfs/device.h"

namespace lsmfs {

AlignedBuffer::AlignedBuffer(std::size_t size) {
  *this = of_any_contents(size);
  if (size_ > 0) std::memset(data_.get(), 0, size_);
}

AlignedBuffer AlignedBuffer::of_any_contents(std::size_t size) {
  AlignedBuffer buffer;
  buffer.size_ = round_up(size, kDeviceBlock);
  if (buffer.size_ == 0) return buffer;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kDeviceBlock, buffer.size_)));
  if (!buffer.data_) throw std::bad_alloc();
  return buffer;
}

void AlignedBuffer::Free::operator()(std::byte* p) const { std::free(p); }

}  // namespace lsmfs
