// What the kv tests share: a volume on a device in memory that can be counted, broken and copied.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>

#include "lsmfs/device.h"
#include "lsmfs/kv.h"
#include "lsmfs/volume.h"

namespace lsmfs::kv_test {

inline void expect_ok(const Result<void>& r) { EXPECT_TRUE(r.has_value()) << r.error().message(); }
inline void assert_ok(const Result<void>& r) { ASSERT_TRUE(r.has_value()) << r.error().message(); }

// A device of the given size in memory under a hook.
class Disk {
 public:
  explicit Disk(std::uint64_t size = kDeviceMin)
      : memory_(memory_device(ByteCount{size})),
        device_(hooked_device(*memory_, [this](const DeviceEvent& e, Bytes data) { return observe(e, data); })) {}

  Device& device() { return *device_; }
  Device& memory() { return *memory_; }

  Result<void> format() { return Volume::format(*memory_, {}); }

  // A disk with the same contents now, as a machine that starts again after this one stopped.
  std::unique_ptr<Disk> copy() {
    auto other = std::make_unique<Disk>(memory_->size().v);
    AlignedBuffer buffer(4 * MiB);
    for (std::uint64_t at = 0; at < memory_->size().v; at += buffer.size()) {
      const auto bytes = buffer.bytes().first(std::min<std::uint64_t>(buffer.size(), memory_->size().v - at));
      EXPECT_TRUE(memory_->read(ByteOffset{at}, bytes).has_value());
      if (std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b != std::byte{0}; })) {
        EXPECT_TRUE(other->memory_->write(ByteOffset{at}, bytes).has_value());
      }
    }
    return other;
  }

  std::atomic<std::uint64_t> reads = 0, writes = 0, flushes = 0;
  // Fails requests of these kinds from the given number (counted from 1 over both) on, for ever.
  std::atomic<std::uint64_t> fail_writes_from = 0;  // writes and flushes; 0: never
  std::atomic<std::uint64_t> fail_reads_from = 0;
  std::atomic<int> fail_code = EIO;

 private:
  Result<void> observe(const DeviceEvent& e, Bytes) {
    switch (e.kind) {
      case DeviceEvent::Kind::read: {
        const std::uint64_t n = ++reads;
        if (fail_reads_from != 0 && n >= fail_reads_from) return make_error(fail_code, "injected read error");
        break;
      }
      case DeviceEvent::Kind::write:
        ++writes;
        break;
      case DeviceEvent::Kind::flush:
        ++flushes;
        break;
      case DeviceEvent::Kind::discard:
        return {};
    }
    if (e.kind != DeviceEvent::Kind::read && fail_writes_from != 0 && writes + flushes >= fail_writes_from) {
      return make_error(fail_code, "injected write error");
    }
    return {};
  }

  std::unique_ptr<Device> memory_;
  std::unique_ptr<Device> device_;
};

// Notices go to the test's log when it fails.
inline StoreOptions quiet_options() {
  StoreOptions options;
  options.cache = ByteCount{64 * MiB};
  return options;
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
  void start(StoreOptions options = quiet_options()) {
    auto v = Volume::open(disk->device());
    ASSERT_TRUE(v.has_value()) << v.error().message();
    volume = std::move(*v);
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

inline std::string number_key(std::uint64_t n) {
  std::string key = "k";
  put_be64(key, n);
  return key;
}

inline std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    const std::uint64_t r = random();
    std::memcpy(bytes.data() + i, &r, 8);
  }
  return bytes;
}

}  // namespace lsmfs::kv_test
