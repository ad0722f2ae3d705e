// The store alone, on a device in memory or, with LSMFS_BENCH_DEVICE=path, on a device or image
// that is overwritten.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "lsmfs/kv.h"
#include "support.h"

namespace lsmfs::bench {
namespace {

constexpr std::uint64_t kRows = 100'000;
constexpr auto kFlush = std::chrono::microseconds(200);  // of a disk that is quick to flush

std::string key(std::uint64_t n) {
  std::string k = "some/directory/of/a/tree";
  put_be64(k, n);
  return k;
}

std::string record() { return std::string(120, 'r'); }

// `put` fills each batch, whose first row has the number that it is given, and says how many operations that were.
template <class Put>
void commits(benchmark::State& state, const Put& put, bool sync = false) {
  NewStore f;
  std::uint64_t n = 0;
  Batch batch;
  for (auto _ : state) {
    batch.clear();
    n += put(batch, n);
    must(f.store->commit(batch));
    if (sync) must(f.store->sync());
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(n));
}

// One small operation a batch: a create with its record.
void SmallCommits(benchmark::State& state) {
  commits(state, [row = record()](Batch& batch, std::uint64_t n) {
    batch.put(Family::names, key(n), row);
    batch.put(Family::names, "directory", row);
    return 1;
  });
}
BENCHMARK(SmallCommits)->UseRealTime();

// As the tree commits: many operations in a batch.
void GroupsOfOperations(benchmark::State& state) {
  constexpr std::uint64_t kOperations = 500;
  commits(state, [row = record()](Batch& batch, std::uint64_t n) {
    for (std::uint64_t i = 0; i < kOperations; ++i) batch.put(Family::names, key(n + i), row);
    return kOperations;
  });
}
BENCHMARK(GroupsOfOperations)->UseRealTime();

void SmallCommitsWithSync(benchmark::State& state) {
  const auto put = [row = record()](Batch& batch, std::uint64_t n) {
    batch.put(Family::names, key(n), row);
    return 1;
  };
  commits(state, put, /*sync=*/true);
}
BENCHMARK(SmallCommitsWithSync)->UseRealTime();

// A device in memory whose flush takes its time, as that of a disk does: so that whoever syncs meanwhile can share the next.
struct SlowToFlush : NewStore {
  SlowToFlush() : NewStore(real_device() != nullptr ? DeviceHook() : DeviceHook(wait_for_flush)) {}
  static Result<void> wait_for_flush(const DeviceEvent& event, Bytes) {
    if (event.kind == DeviceEvent::Kind::flush) std::this_thread::sleep_for(kFlush);
    return {};
  }
};
std::unique_ptr<SlowToFlush> slow_to_flush;

// Group commit: with more threads more of them share a flush.
void CommitsWithSyncOnADisk(benchmark::State& state) {
  const Shared<SlowToFlush> shared(slow_to_flush, state);
  std::uint64_t n = static_cast<std::uint64_t>(state.thread_index()) << 32;
  const std::string row = record();
  Batch batch;
  for (auto _ : state) {
    batch.clear();
    batch.put(Family::names, key(n++), row);
    must(slow_to_flush->store->commit(batch));
    must(slow_to_flush->store->sync());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(CommitsWithSyncOnADisk)->Threads(1)->Threads(2)->Threads(4)->Threads(8)->UseRealTime();

std::vector<std::string> some_data() {
  std::mt19937_64 random(1);
  std::vector<std::string> data;
  for (int i = 0; i < 512; ++i) data.push_back(half_noise(random, kBlockSize));
  return data;
}

// In commits of 128 KiB each.
void put_blocks(Store& store, std::uint64_t blocks, const std::vector<std::string>& data) {
  std::mt19937_64 random(2);
  Batch batch;
  for (std::uint64_t n = 0; n < blocks; ++n) {
    batch.put(Family::blocks, key(n), data[random() % data.size()]);
    if (n % 32 == 31) {
      must(store.commit(batch));
      batch.clear();
    }
  }
}

// Through the log into tables, until the memtables are written.
void BulkBlocks(benchmark::State& state) {
  const std::uint64_t blocks = static_cast<std::uint64_t>(state.range(0)) * MiB / kBlockSize;
  const auto data = some_data();
  for (auto _ : state) {
    state.PauseTiming();
    {
      NewStore f;
      state.ResumeTiming();
      put_blocks(*f.store, blocks, data);
      must(f.store->flush());
      state.PauseTiming();
    }
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(blocks * kBlockSize));
}
BENCHMARK(BulkBlocks)->ArgName("MiB")->Arg(32)->Arg(512)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(2);

void Scan(benchmark::State& state) {
  const std::uint64_t blocks = static_cast<std::uint64_t>(state.range(0)) * MiB / kBlockSize;
  NewStore f;
  put_blocks(*f.store, blocks, some_data());
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
BENCHMARK(Scan)->ArgName("MiB")->Arg(32)->Arg(512)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(3);

// Rows in tables, with every second key only.
struct Rows : NewStore {
  Rows() {
    const std::string row = record();
    Batch batch;
    for (std::uint64_t n = 0; n < kRows; ++n) {
      batch.put(Family::names, key(2 * n), row);
      if (n % 100 == 99) {
        must(store->commit(batch));
        batch.clear();
      }
    }
    must(store->flush());
  }
};

// From memory after the first times. Those that are not there lie between others, where only the filters know it.
void Get(benchmark::State& state) {
  Rows f;
  std::mt19937_64 random(1);
  const bool present = state.range(0) != 0;
  for (auto _ : state) {
    const auto row = must(f.store->get(Family::names, key(random() % kRows * 2 + (present ? 0 : 1)), Wait::yes));
    if (row.has_value() != present) give_up(make_error(EUCLEAN, "get"));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Get)->ArgName("present")->Arg(1)->Arg(0);

// By a request that must not wait, when all of it is in memory.
void GetWithoutWaiting(benchmark::State& state) {
  constexpr std::uint64_t kFew = 1000;
  Rows f;
  for (std::uint64_t n = 0; n < kFew; ++n) must(f.store->get(Family::names, key(2 * n), Wait::yes));
  std::mt19937_64 random(1);
  for (auto _ : state) {
    if (!must(f.store->get(Family::names, key(random() % kFew * 2), Wait::no))) give_up(make_error(EUCLEAN, "get"));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(GetWithoutWaiting);

// A cursor for so many rows, from making it to its end.
void ShortScan(benchmark::State& state) {
  Rows f;
  std::mt19937_64 random(1);
  const auto rows = static_cast<std::uint64_t>(state.range(0));
  std::uint64_t seen = 0;
  for (auto _ : state) {
    const std::uint64_t first = random() % (kRows - rows);
    const std::string from = key(2 * first);
    auto cursor = f.store->cursor(Family::names, {.lower = from, .upper = key(2 * (first + rows))});
    for (cursor->seek(from); cursor->valid(); cursor->next()) ++seen;
    must(cursor->status());
  }
  if (seen != static_cast<std::uint64_t>(state.iterations()) * rows) give_up(make_error(EUCLEAN, "a scan"));
  state.SetItemsProcessed(static_cast<std::int64_t>(seen));
}
BENCHMARK(ShortScan)->ArgName("rows")->Arg(1)->Arg(100);

}  // namespace
}  // namespace lsmfs::bench

BENCHMARK_MAIN();
