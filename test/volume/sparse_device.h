// Devices in memory for crash tests: an image that is cheap to copy, a device on it, and a device
// that records every write and flush so that the states after a power cut can be made.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "lsmfs/device.h"

namespace lsmfs::test {

inline constexpr std::uint64_t kSector = 512;  // what a device writes in one piece

// Blocks that were never written are zeros. Copies share their blocks.
class SparseImage {
 public:
  explicit SparseImage(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const { return size_; }

  void read(std::uint64_t at, MutableBytes to) const {
    for (std::uint64_t i = 0; i < to.size(); i += kDeviceBlock) {
      auto it = blocks_.find(at + i);
      if (it == blocks_.end()) {
        std::memset(to.data() + i, 0, kDeviceBlock);
      } else {
        std::memcpy(to.data() + i, it->second->data(), kDeviceBlock);
      }
    }
  }
  void write(std::uint64_t at, Bytes data) {
    for (std::uint64_t i = 0; i < data.size(); i += kDeviceBlock) {
      auto block = std::make_shared<Block>();
      std::memcpy(block->data(), data.data() + i, kDeviceBlock);
      blocks_[at + i] = std::move(block);
    }
  }
  // Any whole sectors.
  void write_sectors(std::uint64_t at, Bytes data) {
    alignas(8) Block block;
    while (!data.empty()) {
      const std::uint64_t start = round_down(at, kDeviceBlock);
      const std::uint64_t n = std::min<std::uint64_t>(data.size(), start + kDeviceBlock - at);
      read(start, block);
      std::memcpy(block.data() + (at - start), data.data(), n);
      write(start, block);
      at += n;
      data = data.subspan(n);
    }
  }

 private:
  using Block = std::array<std::byte, kDeviceBlock>;
  std::uint64_t size_;
  std::map<std::uint64_t, std::shared_ptr<const Block>> blocks_;
};

struct TraceEvent {
  bool flush = false;
  std::uint64_t at = 0;
  std::shared_ptr<const std::vector<std::byte>> data;
};

// Thread-safe; events are in the order in which the requests took effect.
class SparseDevice : public Device {
 public:
  explicit SparseDevice(SparseImage image, bool writable = true) : image_(std::move(image)), writable_(writable) {}

  Result<void> read(ByteOffset from, MutableBytes to) override {
    std::lock_guard lock(mutex_);
    if (from.v + to.size() > image_.size()) return make_error(ENXIO, "read past the end");
    image_.read(from.v, to);
    return {};
  }
  Result<void> write(ByteOffset to, Bytes data) override {
    std::lock_guard lock(mutex_);
    if (!writable_) return make_error(EROFS, "write to a read-only device");
    if (to.v + data.size() > image_.size()) return make_error(ENXIO, "write past the end");
    image_.write(to.v, data);
    if (recording_) trace_.push_back({false, to.v, std::make_shared<std::vector<std::byte>>(data.begin(), data.end())});
    return {};
  }
  Result<void> flush() override {
    std::lock_guard lock(mutex_);
    if (!writable_) return make_error(EROFS, "flush of a read-only device");
    if (recording_) trace_.push_back({true, 0, nullptr});
    return {};
  }
  Result<void> discard(ByteOffset, ByteCount) override { return {}; }
  ByteCount size() const override { return ByteCount{image_.size()}; }
  bool writable() const override { return writable_; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return path_; }

  void record() { recording_ = true; }
  SparseImage image() const {
    std::lock_guard lock(mutex_);
    return image_;
  }
  std::size_t events() const {
    std::lock_guard lock(mutex_);
    return trace_.size();
  }
  std::vector<TraceEvent> trace() const {
    std::lock_guard lock(mutex_);
    return trace_;
  }

 private:
  mutable std::mutex mutex_;
  SparseImage image_;
  const bool writable_;
  bool recording_ = false;
  std::vector<TraceEvent> trace_;
  std::string path_ = "sparse";
};

// Which of the writes since the last flush survive.
enum class Survivors { all, none, random_whole, random_torn };

// The image after a power cut right after event `events` of the trace.
inline SparseImage after_power_cut(SparseImage start, const std::vector<TraceEvent>& trace, std::size_t events, Survivors which,
                                   std::mt19937_64& random) {
  std::size_t flushed = 0;
  for (std::size_t i = 0; i < events; ++i) {
    if (trace[i].flush) flushed = i;
  }
  for (std::size_t i = 0; i < flushed; ++i) {
    if (!trace[i].flush) start.write(trace[i].at, *trace[i].data);
  }
  std::vector<std::size_t> open;
  for (std::size_t i = flushed; i < events; ++i) {
    if (!trace[i].flush) open.push_back(i);
  }
  const unsigned chance = static_cast<unsigned>(random() % 100);
  for (std::size_t i : open) {
    const Bytes data = *trace[i].data;
    switch (which) {
      case Survivors::none: break;
      case Survivors::all: start.write(trace[i].at, data); break;
      case Survivors::random_whole:
        if (random() % 100 < chance) start.write(trace[i].at, data);
        break;
      case Survivors::random_torn:
        if (random() % 100 < chance) {
          start.write(trace[i].at, data);
        } else if (random() % 2) {
          for (std::uint64_t s = 0; s < data.size(); s += kSector) {
            if (random() % 2) start.write_sectors(trace[i].at + s, data.subspan(s, kSector));
          }
        }
        break;
    }
  }
  return start;
}

}  // namespace lsmfs::test
