// What the micro-benchmarks share: the layers over a new device, bytes like those of files, and an end with one line when
// something fails.
#pragma once

#include <benchmark/benchmark.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "lsmfs/device.h"
#include "lsmfs/kv.h"
#include "lsmfs/tree.h"
#include "lsmfs/volume.h"

namespace lsmfs::bench {

// From any thread, while others run: nothing is torn down. What has been printed stays.
[[noreturn]] inline void give_up(const Error& error) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, error.message().c_str());
  std::fflush(stdout);
  std::_Exit(EXIT_FAILURE);
}

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error());
  return std::move(*result);
}
inline void must(const Result<void>& result) {
  if (!result) give_up(result.error());
}

// As requests are served: without waiting by the request loop, and again by a worker when that cannot be.
template <class Operation>
auto served(const Operation& operation) {
  auto result = operation(Wait::no);
  if (!result && result.error().code == EAGAIN) result = operation(Wait::yes);
  return must(std::move(result));
}

// A device or image that is overwritten; null: the devices are in memory.
inline const char* real_device() { return std::getenv("LSMFS_BENCH_DEVICE"); }

// Takes memory for what is written to it.
inline constexpr ByteCount kMemoryDevice{4 * GiB};

inline std::unique_ptr<Device> blank_device() {
  if (const char* path = real_device()) return must(open_device(path, Access::read_write, Sharing::exclusive));
  return memory_device(kMemoryDevice);
}

// A new volume, an empty store, an empty tree. Their end is like a crash.
struct NewVolume {
  explicit NewVolume(DeviceHook hook = {}) : device(blank_device()) {
    if (hook) {
      below = std::exchange(device, nullptr);
      device = hooked_device(*below, std::move(hook));
    }
    must(Volume::format(*device, {}));
    volume = must(Volume::open(*device));
  }

  std::unique_ptr<Device> below;  // the hook
  std::unique_ptr<Device> device;
  std::unique_ptr<Volume> volume;
};

struct NewStore : NewVolume {
  explicit NewStore(DeviceHook hook = {}) : NewVolume(std::move(hook)) { store = must(Store::open(*volume, {})); }
  void reopen() {
    must(store->close());
    store.reset();
    store = must(Store::open(*volume, {}));
  }

  std::unique_ptr<Store> store;
};

struct NewTree : NewStore {
  NewTree() {
    must(Tree::format(*store));
    tree = must(Tree::open(*store, {.sync_interval_ms = 0}));
  }

  std::unique_ptr<Tree> tree;
};

// For what threads of one run share: made by the first of them before its loop, at whose beginning and end all of them meet.
template <class T>
class Shared {
 public:
  Shared(std::unique_ptr<T>& place, const benchmark::State& state) : place_(place), mine_(state.thread_index() == 0) {
    if (mine_) place_ = std::make_unique<T>();
  }
  ~Shared() {
    if (mine_) place_.reset();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

 private:
  std::unique_ptr<T>& place_;
  const bool mine_;
};

// Of each block half is noise and half is one letter: compresses to about a half, as text and code do.
inline std::string half_noise(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, 'x');
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    if (i % kBlockSize >= kBlockSize / 2) continue;
    const std::uint64_t noise = random();
    std::memcpy(bytes.data() + i, &noise, sizeof noise);
  }
  return bytes;
}

}  // namespace lsmfs::bench
