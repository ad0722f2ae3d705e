// What the kv tests share: a volume on a device in memory that can be counted, broken and copied.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lsmfs/device.h"
#include "lsmfs/kv.h"
#include "kv/sparse_device.h"
#include "lsmfs/volume.h"
#include "noise.h"

namespace lsmfs::kv_test {

inline void expect_ok(const Result<void>& r) { EXPECT_TRUE(r.has_value()) << r.error().message(); }
inline void assert_ok(const Result<void>& r) { ASSERT_TRUE(r.has_value()) << r.error().message(); }

// A device of the given size in memory under a hook.
class Disk {
 public:
  explicit Disk(std::uint64_t size = kDeviceMin) : Disk(std::make_unique<SparseDevice>(size)) {}
  explicit Disk(std::unique_ptr<SparseDevice> memory)
      : memory_(std::move(memory)),
        device_(hooked_device(*memory_, [this](const DeviceEvent& e, Bytes data) { return observe(e, data); })) {}

  Device& device() { return *device_; }
  Device& memory() { return *memory_; }
  // One bit of a byte; the other way round the second time.
  void flip(std::uint64_t at) {
    AlignedBuffer block(kDeviceBlock);
    const ByteOffset from{round_down(at, kDeviceBlock)};
    EXPECT_TRUE(memory_->read(from, block.bytes()));
    block.data()[at % kDeviceBlock] ^= std::byte{0x10};
    EXPECT_TRUE(memory_->write(from, block.bytes()));
  }

  Result<void> format() { return Volume::format(*memory_, {}); }

  // From now on crashed_copy() works; costs a second device. While nobody writes: what is written meanwhile would be missing.
  void watch_flushes() {
    durable_ = copy();
    watching_ = true;
  }

  // The disk after a power cut now: what was flushed, and of the writes and discards since then any,
  // each write possibly cut short at a sector.
  std::unique_ptr<Disk> crashed_copy(std::mt19937_64& random) {
    std::lock_guard lock(mutex_);
    auto other = durable_->copy();
    const bool all = random() % 4 == 0;
    for (const auto& [offset, data, discarded] : pending_) {
      if (!all && random() % 2 == 0) continue;
      if (discarded > 0) {
        EXPECT_TRUE(other->memory_->discard(ByteOffset{offset}, ByteCount{discarded}).has_value());
        continue;
      }
      std::size_t length = data.size();
      AlignedBuffer buffer(length);
      if (!all && random() % 4 == 0) {
        length = random() % (length / 512) * 512;
        EXPECT_TRUE(other->memory_->read(ByteOffset{offset}, buffer.bytes()).has_value());
      }
      std::memcpy(buffer.data(), data.data(), length);
      EXPECT_TRUE(other->memory_->write(ByteOffset{offset}, buffer.bytes()).has_value());
    }
    return other;
  }

  // A disk with the same contents now, as a machine that starts again after this one stopped.
  std::unique_ptr<Disk> copy() {
    auto other = std::make_unique<Disk>(memory_->copy());
    return other;
  }

  std::atomic<std::uint64_t> reads = 0, writes = 0, flushes = 0, discards = 0;
  // Fails requests of these kinds from the given number (counted from 1) on.
  std::atomic<std::uint64_t> fail_writes_from = 0;  // writes and flushes; 0: never
  std::atomic<std::uint64_t> fail_reads_from = 0;
  std::atomic<std::uint64_t> fail_reads_to = ~std::uint64_t{0};  // and not from this one on
  std::atomic<int> fail_code = EIO;
  std::atomic<std::uint64_t> lost_from = 0, lost_to = 0;  // reads of any byte in between fail, until it is written
  // Called at each request of a kind, in its thread. To be set while there are none.
  std::function<void()> on_read = [] {};
  std::function<void(ByteOffset, Bytes)> on_write = [](ByteOffset, Bytes) {};
  std::function<void()> on_flush = [] {};
  std::function<void()> on_discard = [] {};

 private:
  Result<void> observe(const DeviceEvent& e, Bytes data) {
    switch (e.kind) {
      case DeviceEvent::Kind::read: {
        on_read();
        const std::uint64_t n = ++reads;
        if (e.offset.v < lost_to && e.offset.v + e.length.v > lost_from) return make_error(fail_code, "a lost sector");
        if (fail_reads_from != 0 && n >= fail_reads_from && n < fail_reads_to) return make_error(fail_code, "injected read error");
        break;
      }
      case DeviceEvent::Kind::write:
        ++writes;
        if (e.offset.v < lost_to && e.offset.v + e.length.v > lost_from) lost_from = lost_to = 0;
        on_write(e.offset, data);
        break;
      case DeviceEvent::Kind::flush:
        ++flushes;
        break;
      case DeviceEvent::Kind::discard:
        ++discards;
        on_discard();
        break;
    }
    const bool writes_something = e.kind == DeviceEvent::Kind::write || e.kind == DeviceEvent::Kind::flush;
    if (writes_something && fail_writes_from != 0 && writes + flushes >= fail_writes_from) {
      return make_error(fail_code, "injected write error");
    }
    if (watching_ && e.kind != DeviceEvent::Kind::read) remember(e, data);
    if (e.kind == DeviceEvent::Kind::flush) on_flush();  // which covers what came before it, however long it takes
    return {};
  }

  void remember(const DeviceEvent& e, Bytes data) {
    std::lock_guard lock(mutex_);
    if (e.kind == DeviceEvent::Kind::write) {
      pending_.push_back({e.offset.v, std::string(as_text(data)), 0});
      return;
    }
    if (e.kind == DeviceEvent::Kind::discard) {
      pending_.push_back({e.offset.v, "", e.length.v});
      return;
    }
    for (const auto& [offset, bytes, discarded] : pending_) {
      if (discarded > 0) {
        EXPECT_TRUE(durable_->memory_->discard(ByteOffset{offset}, ByteCount{discarded}).has_value());
        continue;
      }
      AlignedBuffer buffer(bytes.size());
      std::memcpy(buffer.data(), bytes.data(), bytes.size());
      EXPECT_TRUE(durable_->memory_->write(ByteOffset{offset}, buffer.bytes()).has_value());
    }
    pending_.clear();
  }

  std::unique_ptr<SparseDevice> memory_;
  std::unique_ptr<Device> device_;
  std::atomic<bool> watching_ = false;
  std::mutex mutex_;
  std::unique_ptr<Disk> durable_;
  struct Pending {
    std::uint64_t offset;
    std::string data;
    std::uint64_t discarded;  // bytes, of a discard
  };
  std::vector<Pending> pending_;  // since the last flush
};

// Notices go to the test's log when it fails.
inline StoreOptions quiet_options() {
  StoreOptions options;
  options.cache = ByteCount{64 * MiB};
  return options;
}

inline constexpr std::uint64_t kFooter = 53;  // bytes at the end of a table

// Tables lie in one piece here, from a granule on; where, nothing above the volume says.
inline std::uint64_t place_of(Disk& disk, Volume& volume, const std::string& name) {
  AlignedBuffer head(kDeviceBlock), there(kDeviceBlock);
  EXPECT_TRUE((*volume.open_reader(name))->read(ByteOffset{0}, head.bytes()));
  for (std::uint64_t at = 0; at < disk.memory().size().v; at += kTableGranule) {
    EXPECT_TRUE(disk.memory().read(ByteOffset{at}, there.bytes()));
    if (as_text(there.bytes()) == as_text(head.bytes())) return at;
  }
  ADD_FAILURE() << name << " is nowhere";
  return 0;
}

// A disk, its volume and the store on it.
struct Machine {
  std::unique_ptr<Disk> disk;
  std::unique_ptr<Volume> volume;
  std::unique_ptr<Store> store;

  // A new disk of this size, formatted, with an empty store.
  static Machine fresh(std::uint64_t size = kDeviceMin, StoreOptions options = quiet_options()) {
    Machine m;
    m.disk = std::make_unique<Disk>(size);
    EXPECT_TRUE(m.disk->format().has_value());
    m.start(options);
    return m;
  }
  static Machine on(std::unique_ptr<Disk> disk, StoreOptions options = quiet_options()) {
    Machine m;
    m.disk = std::move(disk);
    m.start(options);
    return m;
  }
  using Decorate = std::function<std::unique_ptr<Volume>(std::unique_ptr<Volume>)>;
  void start(StoreOptions options = quiet_options(), const Decorate& decorate = [](auto opened) { return opened; }) {
    auto v = Volume::open(disk->device());
    ASSERT_TRUE(v.has_value()) << v.error().message();
    volume = decorate(std::move(*v));
    auto s = Store::open(*volume, options);
    ASSERT_TRUE(s.has_value()) << s.error().message();
    store = std::move(*s);
  }
  // An orderly end.
  void stop() {
    if (store) expect_ok(store->close());
    drop();
  }
  // As if the process had died.
  void drop() {
    store.reset();
    volume.reset();
  }
};

inline std::vector<std::string> tables_of(const Volume& volume) {
  std::vector<std::string> names = volume.list();
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".sst"); });
  return names;
}

// Gives the bytes.
inline std::uint64_t trim(Store& store) {
  const auto trimmed = store.trim({}, [] { return false; });
  EXPECT_TRUE(trimmed.has_value()) << trimmed.error().message();
  return trimmed ? trimmed->v : 0;
}

inline std::string number_key(std::uint64_t n) {
  std::string key = "k";
  put_be64(key, n);
  return key;
}

inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  test::fill_with_noise(random(), bytes);
  return bytes;
}

}  // namespace lsmfs::kv_test
