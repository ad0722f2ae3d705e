// Devices in memory for crash tests: an image that is cheap to copy, a device on it, and a device
// that records every write, discard and flush so that the states after a power cut can be made.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "lsmfs/device.h"

namespace lsmfs::test {

inline constexpr std::uint64_t kSector = 512;  // what a device writes in one piece

// What is where something was discarded: a device may do as it likes.
enum class Discarded { garbage, zeros, as_before };

// Blocks that were never written are zeros. Copies share their blocks.
class SparseImage {
 public:
  explicit SparseImage(std::uint64_t size) : size_(size) {}
  std::uint64_t size() const { return size_; }
  // As a disk that is enlarged, or cut off.
  void set_size(std::uint64_t size) {
    blocks_.erase(blocks_.lower_bound(size), blocks_.end());
    size_ = size;
  }

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
  void discard(std::uint64_t at, std::uint64_t length, Discarded left = Discarded::garbage) {
    static const auto garbage = [] {
      auto block = std::make_shared<Block>();
      block->fill(std::byte{0xd1});  // neither the old bytes nor zeros, as with a MemoryDevice
      return std::shared_ptr<const Block>(std::move(block));
    }();
    const auto begin = blocks_.lower_bound(at), end = blocks_.lower_bound(at + length);
    if (left == Discarded::zeros) blocks_.erase(begin, end);
    if (left != Discarded::garbage) return;
    for (auto it = begin; it != end; ++it) it->second = garbage;
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
  std::uint64_t discarded = 0;  // bytes; there is no data then
  Discarded left = Discarded::garbage;
};

// Has each discard leave one of the things that it may.
inline void draw_discards(std::vector<TraceEvent>& trace, std::mt19937_64& random) {
  for (TraceEvent& event : trace) {
    if (event.discarded > 0) event.left = static_cast<Discarded>(random() % 3);
  }
}

// What a write or discard does to the device; a flush does nothing.
inline void apply(SparseImage& image, const TraceEvent& event) {
  if (event.data) image.write(event.at, *event.data);
  image.discard(event.at, event.discarded, event.left);
}

inline std::uint64_t sectors(const TraceEvent& event) { return event.data ? event.data->size() / kSector : 0; }

// The same of one of its sectors.
inline void apply_sector(SparseImage& image, const TraceEvent& event, std::uint64_t sector) {
  image.write_sectors(event.at + sector * kSector, Bytes(*event.data).subspan(sector * kSector, kSector));
}

// Of some of its sectors, or of some of the blocks that it discards.
inline void apply_torn(SparseImage& image, const TraceEvent& event, std::mt19937_64& random) {
  for (std::uint64_t block = 0; block < event.discarded; block += kDeviceBlock) {
    if (random() % 2) image.discard(event.at + block, kDeviceBlock, event.left);
  }
  const std::uint64_t count = sectors(event);
  if (count == 0) return;
  // Cut off somewhere, as a device does that writes in order, or a sector here and there.
  const std::uint64_t cut = 1 + random() % std::max<std::uint64_t>(count - 1, 1);
  const bool in_order = random() % 2;
  for (std::uint64_t sector = 0; sector < count; ++sector) {
    if (in_order ? sector < cut : random() % 2 == 0) apply_sector(image, event, sector);
  }
}

// Thread-safe; events are in the order in which the requests took effect. A flush covers what came before its beginning.
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
    {
      std::lock_guard lock(mutex_);
      if (!writable_) return make_error(EROFS, "flush of a read-only device");
      if (recording_) trace_.push_back({true, 0, nullptr});
    }
    on_flush();
    return {};
  }
  Result<void> discard(ByteOffset from, ByteCount length) override {
    std::lock_guard lock(mutex_);
    if (!writable_) return make_error(EROFS, "discard of a read-only device");
    if (from.v + length.v > image_.size()) return make_error(ENXIO, "discard past the end");
    image_.discard(from.v, length.v);
    if (recording_) trace_.push_back({false, from.v, nullptr, length.v});
    return {};
  }
  ByteCount size() const override { return ByteCount{image_.size()}; }
  bool writable() const override { return writable_; }
  bool is_block_device() const override { return false; }
  const std::string& path() const override { return path_; }

  // Called while a flush is under way, in its thread. To be set while there is none.
  std::function<void()> on_flush = [] {};

  void record() { recording_ = true; }
  // What a write that fails may leave: a part of it.
  void tear(ByteOffset to, Bytes data) {
    std::lock_guard lock(mutex_);
    std::mt19937_64 random(trace_.size());
    apply_torn(image_, {false, to.v, std::make_shared<std::vector<std::byte>>(data.begin(), data.end())}, random);
    std::vector<std::byte> left(data.size());
    image_.read(to.v, left);
    if (recording_) trace_.push_back({false, to.v, std::make_shared<std::vector<std::byte>>(std::move(left))});
  }
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

// Which of the writes and discards since the last flush survive.
enum class Survivors { all, none, random_whole, random_torn };

// The images that a power cut can leave, at one point of a trace after the other.
class PowerCut {
 public:
  PowerCut(SparseImage start, const std::vector<TraceEvent>& trace) : durable_(std::move(start)), trace_(trace) {}

  // Lets one more event happen; false at the end of the trace.
  bool advance() {
    if (events_ == trace_.size()) return false;
    if (trace_[events_].flush) {
      for (; flushed_ < events_; ++flushed_) {
        apply(durable_, trace_[flushed_]);
      }
    }
    ++events_;
    return true;
  }
  std::size_t events() const { return events_; }  // that have happened

  SparseImage image(Survivors which, std::mt19937_64& random) const {
    SparseImage image = durable_;
    const unsigned chance = static_cast<unsigned>(random() % 100);
    for (std::size_t i = flushed_; i < events_; ++i) {
      if (trace_[i].flush) continue;
      if (which == Survivors::all || (which != Survivors::none && random() % 100 < chance)) {
        apply(image, trace_[i]);
      } else if (which == Survivors::random_torn && random() % 2) {
        apply_torn(image, trace_[i], random);
      }
    }
    return image;
  }

 private:
  SparseImage durable_;
  const std::vector<TraceEvent>& trace_;
  std::size_t events_ = 0, flushed_ = 0;
};

}  // namespace lsmfs::test
