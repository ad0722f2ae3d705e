// BlockBuffer: whole blocks, one after the other, where the device can take them from as they are.
//
// What it is not: it gives no memory back before it ends, so that it can be filled again without fresh pages.
// Not thread-safe.
#pragma once

#include <bit>
#include <cassert>
#include <cstring>

#include "lsmfs/device.h"
#include "tree/keys.h"

namespace lsmfs {

class BlockBuffer {
 public:
  std::size_t size() const { return size_; }  // bytes
  std::size_t capacity() const { return memory_.size(); }
  Bytes bytes() const { return memory_.bytes().first(size_); }
  void append(Bytes blocks) { std::memcpy(more(blocks.size()).data(), blocks.data(), blocks.size()); }
  void append_zeros(std::size_t bytes) { std::memset(more(bytes).data(), 0, bytes); }
  void clear() { size_ = 0; }

 private:
  MutableBytes more(std::size_t bytes) {
    assert(bytes % kBlockSize == 0);
    if (size_ + bytes > capacity()) {
      AlignedBuffer larger(std::bit_ceil(size_ + bytes));
      if (size_ > 0) std::memcpy(larger.data(), memory_.data(), size_);
      memory_ = std::move(larger);
    }
    size_ += bytes;
    return memory_.bytes().subspan(size_ - bytes, bytes);
  }

  AlignedBuffer memory_;
  std::size_t size_ = 0;
};

}  // namespace lsmfs
