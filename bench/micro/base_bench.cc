// What everything above uses all the time: checksums, codecs, and the note of what a thread waits for.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs::bench {
namespace {

// A readdir cookie's name, a synced commit, a block, a full frame.
void Checksum(benchmark::State& state) {
  const std::string bytes(static_cast<std::size_t>(state.range(0)), 'c');
  std::uint64_t sum = 0;
  for (auto _ : state) {
    sum = checksum(bytes, sum);
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Checksum)->ArgName("bytes")->Arg(16)->Arg(256)->Arg(4096)->Arg(1 << 20);

// Numbers of one to ten bytes, the short ones more often, as in records.
std::vector<std::uint64_t> numbers() {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> out(1024);
  for (auto& n : out) n = random() >> (random() % 64);
  return out;
}

void PutVarints(benchmark::State& state) {
  const auto all = numbers();
  std::string out;
  for (auto _ : state) {
    out.clear();
    for (const std::uint64_t n : all) put_varint(out, n);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}
BENCHMARK(PutVarints);

void ReadVarints(benchmark::State& state) {
  const auto all = numbers();
  std::string encoded;
  for (const std::uint64_t n : all) put_varint(encoded, n);
  for (auto _ : state) {
    Reader in(encoded);
    std::uint64_t sum = 0;
    while (!in.at_end()) sum += in.varint();
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(all.size()));
}
BENCHMARK(ReadVarints);

// Around each request of the device and each wait for a lock.
void NoteAWait(benchmark::State& state) {
  for (auto _ : state) {
    const Waiting waiting("read", ByteOffset{4096}, ByteCount{4096});
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(NoteAWait)->Threads(1)->Threads(2);

}  // namespace
}  // namespace lsmfs::bench

BENCHMARK_MAIN();
