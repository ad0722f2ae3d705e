// The volume alone, on a device in memory or, with LSMFS_BENCH_DEVICE=path, on a device or image that is overwritten:
// log files, the metadata log, tables; and the allocator, which needs none.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lsmfs/device.h"
#include "lsmfs/volume.h"
#include "support.h"
#include "volume/allocator.h"
#include "volume/frames.h"
#include "volume/metadata_log.h"
#include "volume/superblock.h"

namespace lsmfs::bench {
namespace {

constexpr std::uint64_t kLog = 64 * MiB;    // of the device, at which a log gives way to the next
constexpr std::uint64_t kTable = 32 * MiB;  // as large as tables get

// A log file that is followed by a new one when it has grown.
class Log {
 public:
  explicit Log(Volume& volume) : volume_(volume) { renew(); }
  void append(std::string_view bytes) {
    must(writer_->append(as_bytes(bytes)));
    unsynced_ += bytes.size();
  }
  void sync() {
    must(writer_->sync());
    used_ += frame_length(std::exchange(unsynced_, 0));
  }
  bool is_full() const { return used_ + unsynced_ >= kLog; }
  void renew() {
    if (writer_) must(writer_->close());
    writer_ = must(volume_.create("log", FileKind::log));  // replaces the old one, whose space returns with the commit
    must(volume_.commit());
    used_ = unsynced_ = 0;
  }

 private:
  Volume& volume_;
  std::unique_ptr<FileWriter> writer_;
  std::uint64_t used_ = 0, unsynced_ = 0;  // bytes
};

void append_to_log(benchmark::State& state, bool syncs) {
  NewVolume f;
  Log log(*f.volume);
  const std::string bytes(static_cast<std::size_t>(state.range(0)), 'l');
  for (auto _ : state) {
    log.append(bytes);
    if (syncs) log.sync();
    if (!log.is_full()) continue;
    state.PauseTiming();
    log.renew();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// Commits that nobody syncs: a copy into the frame in the making; another thread writes full ones.
void AppendToLog(benchmark::State& state) { append_to_log(state, false); }
BENCHMARK(AppendToLog)->ArgName("bytes")->Arg(256)->Arg(4096)->Arg(128 << 10)->UseRealTime();

void AppendToLogAndSync(benchmark::State& state) { append_to_log(state, true); }
BENCHMARK(AppendToLogAndSync)->ArgName("bytes")->Arg(256)->Arg(4096)->Arg(128 << 10)->UseRealTime();

// What a new or removed table costs besides its bytes: a record of the metadata log, both copies of it, with the snapshots
// of a long list of files now and then.
void AppendToMetadataLog(benchmark::State& state) {
  const auto device = blank_device();
  SuperblockInfo superblock;
  superblock.layout = must(plan_layout(device->size().v));
  superblock.info.uuid = Uuid::random();
  const std::string snapshot(64 * KiB, 's'), delta(static_cast<std::size_t>(state.range(0)), 'd');
  must(MetadataLog::format(*device, superblock, snapshot));
  MetadataLog log = must(MetadataLog::load(*device, superblock, [](std::string_view) { return Result<void>(); }));
  for (auto _ : state) {
    must(log.append(delta, [&] { return snapshot; }));
    must(device->flush());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(AppendToMetadataLog)->ArgName("bytes")->Arg(64)->Arg(8192)->UseRealTime();

// The same from above, with the catalog and the journal.
void RenameAndCommit(benchmark::State& state) {
  NewVolume f;
  must(must(f.volume->create("a", FileKind::small))->close());
  bool is_a = true;
  for (auto _ : state) {
    must(is_a ? f.volume->rename("a", "b") : f.volume->rename("b", "a"));
    must(f.volume->commit());
    is_a = !is_a;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(RenameAndCommit)->UseRealTime();

void write_table(Volume& volume, std::string_view piece) {
  const auto writer = must(volume.create("table", FileKind::table));
  writer->set_lifetime(Lifetime::lasting);
  must(writer->reserve(ByteCount{kTable}));
  for (std::uint64_t at = 0; at < kTable; at += piece.size()) must(writer->append(as_bytes(piece)));
  must(writer->sync());
  must(writer->close());
}

// In pieces as compactions append them.
void WriteTable(benchmark::State& state) {
  NewVolume f;
  const std::string piece(MiB, 't');
  for (auto _ : state) write_table(*f.volume, piece);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kTable));
}
BENCHMARK(WriteTable)->Unit(benchmark::kMillisecond)->UseRealTime();

// Blocks of tables, anywhere: aligned without a copy, else through a buffer.
void ReadTable(benchmark::State& state) {
  NewVolume f;
  write_table(*f.volume, std::string(MiB, 't'));
  const auto reader = must(f.volume->open_reader("table"));
  const auto size = static_cast<std::size_t>(state.range(0));
  const std::uint64_t past_alignment = state.range(1) != 0 ? 0 : 100;
  AlignedBuffer buffer(size);
  std::mt19937_64 random(1);
  const std::uint64_t places = (kTable - size) / kDeviceBlock;
  for (auto _ : state) {
    const ByteOffset from{random() % places * kDeviceBlock + past_alignment};
    benchmark::DoNotOptimize(must(reader->read(from, buffer.bytes().first(size))));
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(ReadTable)->ArgNames({"bytes", "aligned"})->ArgsProduct({{16 << 10, 64 << 10, 1 << 20}, {1, 0}})->UseRealTime();

// Tables come and go in a region that has been in use for long and is three quarters full.
void AllocateAndRelease(benchmark::State& state) {
  constexpr std::uint64_t kGranule = format::kTableGranule, kLargest = 32;  // granules
  const std::uint64_t total = static_cast<std::uint64_t>(state.range(0)) * GiB;
  Allocator allocator(kGranule, total, kGranule);
  std::mt19937_64 random(1);
  struct Table {
    std::uint64_t granules;
    std::vector<Extent> extents;
  };
  const auto make = [&](std::uint64_t granules) {
    auto extents = allocator.allocate(granules * kGranule, random() % 2 != 0 ? Allocator::End::low : Allocator::End::high, 8 * MiB);
    if (!extents) give_up(make_error(ENOSPC, "the allocator"));
    return Table{granules, std::move(*extents)};
  };
  const auto drop = [&](const Table& table) {
    for (const Extent& extent : table.extents) {
      if (!allocator.release(extent)) give_up(make_error(EUCLEAN, "the allocator"));
    }
  };
  std::vector<Table> tables;
  while (allocator.free() > total / 4) tables.push_back(make(1 + random() % kLargest));

  // Two tables go and two others come, as large together: so it stays as full as it is.
  const auto replace_two = [&] {
    Table& a = tables[random() % tables.size()];
    Table& b = tables[random() % tables.size()];
    if (&a == &b) return;
    drop(a);
    drop(b);
    const std::uint64_t granules = a.granules + b.granules, first = 1 + random() % (granules - 1);
    a = make(first);
    b = make(granules - first);
  };
  for (std::size_t i = 0; i < 4 * tables.size(); ++i) replace_two();
  for (auto _ : state) replace_two();
  state.SetItemsProcessed(2 * state.iterations());
  state.counters["largest_MiB"] = static_cast<double>(allocator.largest() / MiB);
}
BENCHMARK(AllocateAndRelease)->ArgName("GiB")->Arg(4)->Arg(256);

}  // namespace
}  // namespace lsmfs::bench

BENCHMARK_MAIN();
