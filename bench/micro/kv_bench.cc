// The store alone, on a device in memory or, with LSMFS_BENCH_DEVICE=path, on a device or image
// that is overwritten.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lsmfs/device.h"
#include "lsmfs/kv.h"
#include "lsmfs/volume.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kMemoryDevice = 4 * GiB;

template <class T>
T must(Result<T> r) {
  if (!r) {
    std::fprintf(stderr, "kv_bench: %s\n", r.error().message().c_str());
    std::exit(1);
  }
  return std::move(*r);
}
void must(const Result<void>& r) {
  if (r) return;
  std::fprintf(stderr, "kv_bench: %s\n", r.error().message().c_str());
  std::exit(1);
}

struct Fixture {
  std::unique_ptr<Device> device;
  std::unique_ptr<Volume> volume;
  std::unique_ptr<Store> store;

  Fixture() {
    const char* path = std::getenv("LSMFS_BENCH_DEVICE");
    device = path != nullptr ? must(open_device(path, Access::read_write, Sharing::exclusive))
                             : memory_device(ByteCount{kMemoryDevice});
    must(Volume::format(*device, {}));
    volume = must(Volume::open(*device));
    store = must(Store::open(*volume, {}));
  }
  void reopen() {
    must(store->close());
    store.reset();
    store = must(Store::open(*volume, {}));
  }
};

// Half noise and half one letter: compresses to about a half, as text and code do.
std::string block(std::mt19937_64& random) {
  std::string bytes(4096, 'x');
  for (std::size_t i = 0; i < 2048; i += 8) {
    const std::uint64_t r = random();
    std::memcpy(bytes.data() + i, &r, 8);
  }
  return bytes;
}

std::string key(std::uint64_t n) {
  std::string k = "some/directory/of/a/tree";
  put_be64(k, n);
  return k;
}

// One small operation a batch: a create with its record.
void SmallCommits(benchmark::State& state) {
  Fixture f;
  std::uint64_t n = 0;
  const std::string record(120, 'r');
  Batch batch;
  for (auto _ : state) {
    batch.clear();
    batch.put(Family::names, key(n), record);
    batch.put(Family::names, "directory", record);
    ++n;
    must(f.store->commit(batch, Wait::yes));
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(n));
}
BENCHMARK(SmallCommits)->UseRealTime();

void SmallCommitsWithSync(benchmark::State& state) {
  Fixture f;
  std::uint64_t n = 0;
  Batch batch;
  for (auto _ : state) {
    batch.clear();
    batch.put(Family::names, key(n++), std::string(120, 'r'));
    must(f.store->commit(batch, Wait::yes));
    must(f.store->sync());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(n));
}
BENCHMARK(SmallCommitsWithSync)->UseRealTime();

// 512 MiB in batches of 128 KiB, through the log into tables, until the memtables are written.
void BulkBlocks(benchmark::State& state) {
  constexpr std::uint64_t kBlocks = 512 * MiB / 4096;
  std::mt19937_64 random(1);
  std::vector<std::string> data;
  for (int i = 0; i < 512; ++i) data.push_back(block(random));
  for (auto _ : state) {
    state.PauseTiming();
    Fixture f;
    state.ResumeTiming();
    Batch batch;
    for (std::uint64_t n = 0; n < kBlocks; ++n) {
      batch.put(Family::blocks, key(n), data[random() % data.size()]);
      if (n % 32 == 31) {
        must(f.store->commit(batch, Wait::yes));
        batch.clear();
      }
    }
    must(f.store->flush());
    state.PauseTiming();
    f.store.reset();
    state.ResumeTiming();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * kBlocks * 4096));
}
BENCHMARK(BulkBlocks)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(2);

void Scan(benchmark::State& state) {
  constexpr std::uint64_t kBlocks = 512 * MiB / 4096;
  Fixture f;
  std::mt19937_64 random(1);
  Batch batch;
  for (std::uint64_t n = 0; n < kBlocks; ++n) {
    batch.put(Family::blocks, key(n), block(random));
    if (n % 32 == 31) {
      must(f.store->commit(batch, Wait::yes));
      batch.clear();
    }
  }
  must(f.store->compact(Family::blocks, "", ""));
  std::uint64_t bytes = 0;
  for (auto _ : state) {
    state.PauseTiming();
    f.reopen();
    state.ResumeTiming();
    CursorOptions options;
    options.readahead = ByteCount{2 * MiB};
    options.fill_cache = false;
    auto cursor = f.store->cursor(Family::blocks, options);
    for (cursor->seek(""); cursor->valid(); cursor->next()) bytes += cursor->value().size();
    must(cursor->status());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(Scan)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

void Get(benchmark::State& state) {
  Fixture f;
  Batch batch;
  for (std::uint64_t n = 0; n < 100'000; ++n) {
    batch.put(Family::names, key(n), std::string(120, 'r'));
    if (n % 100 == 99) {
      must(f.store->commit(batch, Wait::yes));
      batch.clear();
    }
  }
  must(f.store->flush());
  std::mt19937_64 random(1);
  const std::uint64_t range = state.range(0) != 0 ? 100'000 : 1;
  const std::uint64_t from = state.range(0) != 0 ? 0 : 1'000'000;  // rows that are not there
  for (auto _ : state) benchmark::DoNotOptimize(must(f.store->get(Family::names, key(from + random() % range), Wait::yes)));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Get)->ArgName("present")->Arg(1)->Arg(0);

}  // namespace
}  // namespace lsmfs

BENCHMARK_MAIN();
