#include "fuse/control/stats_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

namespace lsmfs {
namespace {

// Every number of the layers, in the order of the bytes. grows(n): it only grows; now(n): it is as of now; took(h): a histogram.
template <class Stats, class Visitor>
void each_number(Stats& stats, Visitor& visit) {
  visit.grows(stats.mounted_ns);
  auto& device = stats.layers.device;
  for (auto& cause : device.by_cause) {
    for (auto* number : {&cause.reads, &cause.read_bytes, &cause.writes, &cause.written_bytes}) visit.grows(*number);
  }
  for (auto* histogram : {&device.read, &device.write, &device.flush}) visit.took(*histogram);
  for (auto* number : {&device.discards, &device.discarded_bytes}) visit.grows(*number);
  auto& volume = stats.layers.volume;
  for (auto* bytes : {&volume.table_total, &volume.table_free, &volume.largest_free, &volume.fixed_total, &volume.fixed_free, &volume.list_total,
                      &volume.list_free}) {
    visit.now(bytes->v);
  }
  visit.now(volume.files);
  auto& store = stats.layers.store;
  for (auto* number : {&store.commits, &store.committed_bytes, &store.stream_bytes, &store.syncs, &store.flushes, &store.compactions,
                       &store.compaction_ns, &store.stalls, &store.stall_ns, &store.delays, &store.delay_ns, &store.data.hits,
                       &store.data.misses, &store.indexes.hits, &store.indexes.misses}) {
    visit.grows(*number);
  }
  for (auto* number : {&store.memtable_bytes, &store.cache_bytes, &store.debt_bytes, &store.level0_tables, &store.tables, &store.table_bytes,
                       &store.blob_bytes, &store.wanted_bytes, &store.total_bytes, &store.reserve_bytes, &store.lost_ranges, &store.starved,
                       &store.failed}) {
    visit.now(*number);
  }
  auto& tree = stats.layers.tree;
  for (auto* number : {&tree.uncommitted_bytes, &tree.inodes, &tree.inode_bytes}) visit.now(*number);
  visit.grows(stats.requests.other_programs);
}

template <class Kind, class Visitor>
void each_number_of(Kind& kind, Visitor& visit) {
  visit.grows(kind.count);
  visit.took(kind.took);
  visit.grows(kind.waited);
  visit.grows(kind.bytes);
}

struct Writer {
  std::string& out;
  void now(std::uint64_t n) { put_varint(out, n); }
  void grows(std::uint64_t n) { put_varint(out, n); }
  void took(const HistogramCounts& histogram) {
    put_varint(out, histogram.sum_ns);
    put_varint(out, static_cast<std::uint64_t>(std::ranges::count_if(histogram.buckets, [](std::uint64_t n) { return n != 0; })));
    std::size_t next = 0;
    for (std::size_t i = 0; i < histogram.buckets.size(); ++i) {
      if (histogram.buckets[i] == 0) continue;
      put_varint(out, i - next);
      put_varint(out, histogram.buckets[i]);
      next = i + 1;
    }
  }
};

struct Decoder {
  Reader& in;
  void now(std::uint64_t& n) { n = in.varint(); }
  void grows(std::uint64_t& n) { n = in.varint(); }
  void took(HistogramCounts& histogram) {
    histogram = {};
    histogram.sum_ns = in.varint();
    std::uint64_t next = 0;
    for (std::uint64_t left = in.varint(); left > 0 && in.ok(); --left) {
      const std::uint64_t skip = in.varint(), count = in.varint();
      if (skip >= histogram.buckets.size() - next) return in.fail();
      histogram.buckets[next + skip] = count;
      next += skip + 1;
      if (next == histogram.buckets.size() && left > 1) return in.fail();
    }
  }
};

// Takes the numbers of an earlier moment away, in the same order. A number that is less than before has begun anew.
struct Earlier {
  std::vector<std::uint64_t> before;
  std::size_t at = 0;
  void now(std::uint64_t&) {}
  void grows(std::uint64_t& n) {
    const std::uint64_t was = before[at++];
    n -= std::min(n, was);
  }
  void took(HistogramCounts& histogram) {
    grows(histogram.sum_ns);
    for (auto& bucket : histogram.buckets) grows(bucket);
  }
};
struct Collector {
  std::vector<std::uint64_t>& all;
  void now(std::uint64_t) {}
  void grows(std::uint64_t n) { all.push_back(n); }
  void took(const HistogramCounts& histogram) {
    grows(histogram.sum_ns);
    for (const auto bucket : histogram.buckets) grows(bucket);
  }
};

bool is_empty(const KindCount& kind) { return kind.count == 0 && kind.took == HistogramCounts{} && kind.waited == 0 && kind.bytes == 0; }

std::string first_part(const MountStats& stats) {
  std::string bytes;
  Writer writer{bytes};
  each_number(stats, writer);
  put_varint(bytes, std::min(stats.requests.programs.size(), RequestStats::kProgramsMax));
  for (std::size_t i = 0; i < std::min(stats.requests.programs.size(), RequestStats::kProgramsMax); ++i) {
    put_varint(bytes, stats.requests.programs[i].id);
    put_varint(bytes, stats.requests.programs[i].requests);
  }
  return bytes;
}

Error damaged() { return make_error(EPROTO, "the daemon's numbers are not understood"); }

}  // namespace

Result<StatsMessage> to_message(const MountStats& stats, const StatsMessage& request) {
  StatsMessage answer;
  answer.version = kStatsVersion;
  if (request.version != kStatsVersion) return answer;
  if (request.part > RequestStats::kKinds) return make_error(EINVAL, "no such part of the numbers");
  std::string bytes;
  if (request.part == 0) {
    bytes = first_part(stats);
    answer.part = 1;
  } else {
    std::size_t kind = request.part - 1;
    for (; kind < RequestStats::kKinds; ++kind) {
      if (is_empty(stats.requests.kinds[kind])) continue;
      std::string one;
      put_varint(one, kind);
      Writer writer{one};
      each_number_of(stats.requests.kinds[kind], writer);
      if (bytes.size() + one.size() > sizeof answer.bytes) break;
      bytes += one;
    }
    answer.part = kind < RequestStats::kKinds ? static_cast<std::uint32_t>(kind + 1) : 0;
  }
  answer.size = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(answer.bytes, bytes.data(), std::min(bytes.size(), sizeof answer.bytes));
  return answer;
}

Result<void> take_part(const StatsMessage& answer, std::uint32_t part, MountStats& stats) {
  if (answer.version != kStatsVersion) {
    return make_error(EPROTO, fmt::format("the daemon's numbers are of version {}, and this lsmfs knows version {}: mount it again", answer.version,
                                          kStatsVersion));
  }
  // Each part brings the next one closer to the end.
  if (answer.size > sizeof answer.bytes || answer.part > RequestStats::kKinds || (answer.part != 0 && answer.part <= part)) return damaged();
  Reader in(std::string_view(answer.bytes, answer.size));
  Decoder decoder{in};
  if (part == 0) {
    each_number(stats, decoder);
    const std::uint64_t programs = in.varint();
    if (programs > RequestStats::kProgramsMax) return damaged();
    stats.requests.programs.clear();
    for (std::uint64_t i = 0; i < programs; ++i) {
      const std::uint64_t id = in.varint(), requests = in.varint();
      if (id > UINT32_MAX) return damaged();
      stats.requests.programs.push_back({static_cast<std::uint32_t>(id), requests});
    }
  } else {
    while (in.ok() && !in.at_end()) {
      const std::uint64_t kind = in.varint();
      if (kind >= RequestStats::kKinds) return damaged();
      each_number_of(stats.requests.kinds[kind], decoder);
    }
  }
  if (!in.ok() || !in.at_end()) return damaged();
  return {};
}

MountStats since(const MountStats& now, const MountStats& before) {
  std::vector<std::uint64_t> then;
  Collector collector{then};
  each_number(before, collector);
  for (const KindCount& kind : before.requests.kinds) each_number_of(kind, collector);
  Earlier earlier{std::move(then)};
  MountStats stats = now;
  each_number(stats, earlier);
  for (KindCount& kind : stats.requests.kinds) each_number_of(kind, earlier);
  std::map<std::uint32_t, std::uint64_t> programs;
  for (const ProgramCount& program : before.requests.programs) programs[program.id] = program.requests;
  for (ProgramCount& program : stats.requests.programs) {
    const auto was = programs.find(program.id);
    if (was != programs.end() && was->second <= program.requests) program.requests -= was->second;
  }
  std::erase_if(stats.requests.programs, [](const ProgramCount& program) { return program.requests == 0; });
  std::ranges::stable_sort(stats.requests.programs, std::greater(), &ProgramCount::requests);
  return stats;
}

}  // namespace lsmfs
