// A device in memory that takes space only for what was written, and whose copy shares it.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lsmfs/device.h"

namespace lsmfs::kv_test {

class SparseDevice final : public Device {
 public:
  explicit SparseDevice(std::uint64_t size) : size_(size), chunks_(div_up(size, kChunk)) {}
  std::unique_ptr<SparseDevice> copy() {
    std::lock_guard lock(mutex_);
    auto other = std::make_unique<SparseDevice>(size_);
    other->chunks_ = chunks_;
    return other;
  }

  Result<void> read(ByteOffset from, MutableBytes to) override {
    return each(from.v, to.size(), [&](std::size_t chunk, std::size_t at, std::size_t done, std::size_t length) {
      if (chunks_[chunk]) {
        std::memcpy(to.data() + done, chunks_[chunk]->data() + at, length);
      } else {
        std::memset(to.data() + done, 0, length);
      }
    });
  }
  Result<void> write(ByteOffset to, Bytes data) override {
    return each(to.v, data.size(), [&](std::size_t chunk, std::size_t at, std::size_t done, std::size_t length) {
      std::memcpy(own(chunk).data() + at, data.data() + done, length);
    });
  }
  Result<void> flush() override { return {}; }
  // Neither the old bytes nor zeros.
  Result<void> discard(ByteOffset from, ByteCount length) override {
    return each(from.v, length.v, [&](std::size_t chunk, std::size_t at, std::size_t, std::size_t piece) {
      if (chunks_[chunk]) std::memset(own(chunk).data() + at, 0xd1, piece);
    });
  }
  ByteCount size() const override { return ByteCount{size_}; }
  bool writable() const override { return true; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return path_; }

 private:
  static constexpr std::size_t kChunk = 64 * KiB;
  using Chunk = std::array<std::byte, kChunk>;

  Chunk& own(std::size_t chunk) {
    std::shared_ptr<Chunk>& target = chunks_[chunk];
    if (!target) {
      target = std::make_shared<Chunk>();
    } else if (target.use_count() > 1) {
      target = std::make_shared<Chunk>(*target);
    }
    return *target;
  }

  template <class Visit>
  Result<void> each(std::uint64_t from, std::size_t size, Visit visit) {
    if (from > size_ || size > size_ - from) return make_error(ENXIO, "past the end of the device");
    std::lock_guard lock(mutex_);
    for (std::size_t done = 0; done < size;) {
      const std::size_t at = (from + done) % kChunk;
      const std::size_t length = std::min(size - done, kChunk - at);
      visit((from + done) / kChunk, at, done, length);
      done += length;
    }
    return {};
  }

  const std::uint64_t size_;
  const std::string path_ = "memory";
  std::mutex mutex_;
  std::vector<std::shared_ptr<Chunk>> chunks_;
};

}  // namespace lsmfs::kv_test
