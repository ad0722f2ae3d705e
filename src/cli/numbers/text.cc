#include "cli/numbers/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>

#include "cli/numbers/metrics.h"
#include "cli/sizes.h"

namespace lsmfs::cli {
namespace {

// In ten characters at most: "123456789", "18446744 M".
std::string short_count(std::uint64_t n) {
  if (n < 1'000'000'000) return fmt::format("{}", n);
  if (n < 1'000'000'000'000) return fmt::format("{} K", n / 1000);
  return n < 1'000'000'000'000'000 ? fmt::format("{} M", n / 1'000'000) : fmt::format("{} G", n / 1'000'000'000);
}

// "99.9 %", or a dash for a part of nothing. 100 % is all, and 0 % none.
std::string share(std::uint64_t part, std::uint64_t all) {
  if (all == 0) return "-";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(all);
  const double shown = part == 0 || part == all ? percent : std::clamp(std::round(percent * 10) / 10, 0.1, 99.9);
  return part == 0 || part == all ? fmt::format("{:.0f} %", shown) : fmt::format("{:.1f} %", shown);
}

std::string times_of(const HistogramCounts& took) {
  return fmt::format("{:>9} {:>9} {:>9}", short_time(took.percentile_ns(50)), short_time(took.percentile_ns(99)), short_time(took.percentile_ns(99.9)));
}

std::string named(std::string_view name, std::string_view text) { return fmt::format("{:<12}{}", name, text).substr(0, kNumbersWidth); }

}  // namespace

std::string short_time(std::uint64_t ns) {
  if (ns == 0) return "-";
  constexpr std::array<std::pair<double, const char*>, 3> kUnits{{{1e3, "us"}, {1e6, "ms"}, {1e9, "s"}}};
  for (const auto& [unit, name] : kUnits) {
    const double value = static_cast<double>(ns) / unit;
    if (value >= 999.5 && unit < 1e9) continue;
    return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, name);
  }
  return "";
}

std::string clock_time(std::uint64_t ns) {
  const std::uint64_t seconds = ns / 1'000'000'000;
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::optional<double> write_amplification(const MountStats& stats) {
  const StoreActivity& store = stats.layers.store;
  const std::uint64_t asked = store.committed_bytes + store.stream_bytes;
  if (asked == 0) return std::nullopt;
  return static_cast<double>(stats.layers.device.sum().written_bytes) / static_cast<double>(asked);
}

std::vector<std::string> request_lines(const MountStats& stats) {
  std::vector<std::string> lines{fmt::format("{:<20} {:>10} {:>9} {:>9} {:>9}  {:>8}", "requests", "count", "p50", "p99", "p99.9", "waited")};
  std::vector<std::size_t> order(RequestStats::kKinds);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto count = [&](std::size_t kind) { return stats.requests.kinds[kind].count; };
  std::erase_if(order, [&](std::size_t kind) { return count(kind) == 0; });
  std::ranges::stable_sort(order, std::greater(), count);
  for (const std::size_t kind : order) {
    const KindCount& of = stats.requests.kinds[kind];
    lines.push_back(fmt::format("  {:<18} {:>10} {}  {:>8}", kind_name(kind), short_count(count(kind)), times_of(of.took), share(of.waited, count(kind))));
  }
  return lines;
}

std::vector<std::string> device_lines(const MountStats& stats) {
  const DeviceStats& device = stats.layers.device;
  std::vector<std::string> lines{fmt::format("{:<12} {:>12} {:>10} {:>12} {:>10}", "device", "read", "requests", "written", "requests")};
  const auto line = [&](std::string_view name, const IoCounts& io) {
    lines.push_back(fmt::format("  {:<10} {:>12} {:>10} {:>12} {:>10}", name, format_size(io.read_bytes), short_count(io.reads),
                                format_size(io.written_bytes), short_count(io.writes)));
  };
  for (std::size_t i = 0; i < kIoCauses.size(); ++i) {
    const IoCounts& io = device.by_cause[i];
    if (io.reads + io.writes > 0) line(kIoCauses[i], io);
  }
  line("all", device.sum());
  if (device.read.count() + device.write.count() + device.flush.count() > 0) lines.push_back(fmt::format("{:<20} {:>10} {:>9} {:>9} {:>9}", "", "count", "p50", "p99", "p99.9"));
  for (const auto& [name, took] : {std::pair("read", &device.read), {"write", &device.write}, {"flush", &device.flush}}) {
    if (took->count() > 0) lines.push_back(fmt::format("  {:<18} {:>10} {}", name, short_count(took->count()), times_of(*took)));
  }
  return lines;
}

std::vector<std::string> store_lines(const MountStats& stats) {
  const StoreActivity& store = stats.layers.store;
  const VolumeUsage& volume = stats.layers.volume;
  const TreeActivity& tree = stats.layers.tree;
  const auto found = [](const CacheCounts& counts) {
    const std::uint64_t all = counts.hits + counts.misses;
    return fmt::format("{} of {}", share(counts.hits, all), short_count(all));
  };
  std::vector<std::string> lines;
  // What matters most comes first: a small window shows no more.
  if (store.failed != 0) lines.push_back(named("WARNING", "the device has failed: nothing is written any more"));
  if (store.starved != 0) lines.push_back(named("WARNING", "a merge found no space: new data is refused"));
  if (store.lost_ranges != 0) lines.push_back(named("WARNING", fmt::format("rows are lost in {} places: see the log", short_count(store.lost_ranges))));
  lines.push_back(named("waits", fmt::format("{} stalls ({}), {} delays ({})", short_count(store.stalls), short_time(store.stall_ns),
                                             short_count(store.delays), short_time(store.delay_ns))));
  lines.push_back(named("in cache", fmt::format("data {}, indexes and filters {}", found(store.data), found(store.indexes))));
  lines.push_back(named("merges", fmt::format("{} in {}; {} to merge, {} tables in level 0", short_count(store.compactions), short_time(store.compaction_ns),
                                              format_size(store.debt_bytes), store.level0_tables)));
  const auto amplification = write_amplification(stats);
  lines.push_back(named("written", fmt::format("{} by programs; {} committed, {} in blobs", format_size(stats.requests.kinds[kWrite].bytes),
                                               format_size(store.committed_bytes), format_size(store.stream_bytes))));
  lines.push_back(named("", fmt::format("write amplification {}", amplification ? fmt::format("{:.2f}", *amplification) : "-")));
  lines.push_back(named("work", fmt::format("{} commits, {} log syncs, {} flushes", short_count(store.commits), short_count(store.syncs),
                                            short_count(store.flushes))));
  const std::uint64_t taken = store.table_bytes + store.blob_bytes;
  lines.push_back(named("space", fmt::format("{} in all, {} free, {} in reserve", format_size(store.total_bytes), format_size(volume.table_free.v),
                                             format_size(store.reserve_bytes))));
  lines.push_back(named("", fmt::format("{} in {} tables, {} in blobs, {} reclaimable", format_size(store.table_bytes), store.tables,
                                        format_size(store.blob_bytes), format_size(taken - std::min(taken, store.wanted_bytes)))));
  lines.push_back(named("log", fmt::format("{} of {} free", format_size(volume.fixed_free.v), format_size(volume.fixed_total.v))));
  lines.push_back(named("memory", fmt::format("{} cached, {} unflushed, {} uncommitted", format_size(store.cache_bytes), format_size(store.memtable_bytes),
                                              format_size(tree.uncommitted_bytes))));
  lines.push_back(named("", fmt::format("{} inodes in about {}", short_count(tree.inodes), format_size(tree.inode_bytes))));
  return lines;
}

std::vector<std::string> program_lines(const std::map<std::string, std::uint64_t>& programs, std::uint64_t others, std::size_t most) {
  std::vector<std::pair<std::string, std::uint64_t>> order(programs.begin(), programs.end());
  std::ranges::stable_sort(order, std::greater(), [](const auto& one) { return one.second; });
  std::vector<std::string> lines{fmt::format("{:<20} {:>10}", "programs", "requests")};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i < most) {
      lines.push_back(fmt::format("  {:<18} {:>10}", printable(order[i].first), short_count(order[i].second)).substr(0, kNumbersWidth));
    } else {
      others += order[i].second;
    }
  }
  if (others > 0) lines.push_back(fmt::format("  {:<18} {:>10}", "(others)", short_count(others)));
  return lines;
}

std::string stats_text(const MountStats& stats) {
  std::string out;
  for (const auto& lines : {request_lines(stats), device_lines(stats), store_lines(stats)}) {
    for (const std::string& line : lines) out += line + "\n";
  }
  return out;
}

}  // namespace lsmfs::cli
