#include "cli/numbers/metrics.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace lsmfs::cli {
namespace {

using Json = nlohmann::ordered_json;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

// A path is bytes.
std::string as_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto character = first_character(text);
    out += character ? std::string(text.substr(0, character->bytes)) : "\xef\xbf\xbd";
    text.remove_prefix(character ? character->bytes : 1);
  }
  return out;
}

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Exposition {
 public:
  explicit Exposition(const std::string& mount_point) : mount_(fmt::format("mount=\"{}\"", escaped(as_utf8(mount_point)))) {}

  void begin(std::string_view name, std::string_view type, std::string_view help) {
    name_ = fmt::format("lsmfs_{}", name);
    out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name_, help, name_, type);
  }
  template <class Number>
  void value(Number number, std::string_view label = {}, std::string_view of = {}) {
    line("", labels(label, of), number);
  }
  template <class Number>
  void counter(std::string_view name, std::string_view help, Number number) {
    begin(name, "counter", help);
    value(number);
  }
  template <class Number>
  void gauge(std::string_view name, std::string_view help, Number number) {
    begin(name, "gauge", help);
    value(number);
  }
  void histogram(const HistogramCounts& counts, std::string_view label = {}, std::string_view of = {}) {
    const std::string all = labels(label, of);
    // Every second doubling: what is between two bounds is told apart by who asks for percentiles of a mount.
    for (std::size_t bucket = 1; bucket + 1 < HistogramCounts::kBuckets; bucket += 2 * HistogramCounts::kSteps) {
      line("_bucket", fmt::format("{},le=\"{}\"", all, seconds(HistogramCounts::lower_ns(bucket))), counts.count_below(bucket));
    }
    line("_bucket", all + ",le=\"+Inf\"", counts.count());
    line("_sum", all, seconds(counts.sum_ns));
    line("_count", all, counts.count());
  }
  std::string take() { return std::move(out_); }

 private:
  std::string labels(std::string_view label, std::string_view of) const {
    return label.empty() ? mount_ : fmt::format("{},{}=\"{}\"", mount_, label, escaped(of));
  }
  template <class Number>
  void line(std::string_view suffix, const std::string& all, Number number) {
    out_ += fmt::format("{}{}{{{}}} {}\n", name_, suffix, all, number);
  }

  const std::string mount_;
  std::string name_, out_;
};

Json times(const HistogramCounts& counts) {
  Json json = {{"count", counts.count()}, {"sum_seconds", seconds(counts.sum_ns)}};
  if (counts.count() == 0) return json;
  json["p50_seconds"] = seconds(counts.percentile_ns(50));
  json["p99_seconds"] = seconds(counts.percentile_ns(99));
  json["p999_seconds"] = seconds(counts.percentile_ns(99.9));
  return json;
}

}  // namespace

std::string kind_name(std::size_t kind) {
  const std::string_view known = request_kind(kind);
  return known.empty() ? fmt::format("kind {}", kind) : std::string(known);
}

std::string prometheus_text(const MountStats& stats, const std::string& mount_point) {
  Exposition out(mount_point);
  const RequestStats& requests = stats.requests;
  const DeviceStats& device = stats.layers.device;
  const VolumeUsage& volume = stats.layers.volume;
  const StoreActivity& store = stats.layers.store;
  const TreeActivity& tree = stats.layers.tree;
  const auto each_kind = [&](const auto& visit) {
    for (std::size_t kind = 0; kind < RequestStats::kKinds; ++kind) {
      if (requests.kinds[kind].count > 0) visit(kind_name(kind), requests.kinds[kind]);
    }
  };
  const auto each_cause = [&](std::string_view name, std::string_view help, std::uint64_t IoCounts::*number) {
    out.begin(name, "counter", help);
    for (std::size_t i = 0; i < kIoCauses.size(); ++i) out.value(device.by_cause[i].*number, "cause", kIoCauses[i]);
  };
  out.gauge("mounted_seconds", "How long it has been mounted.", seconds(stats.mounted_ns));
  out.begin("requests_total", "counter", "Requests of the kernel that were answered.");
  each_kind([&](const std::string& name, const KindCount& kind) { out.value(kind.count, "kind", name); });
  out.begin("request_duration_seconds", "histogram", "How long requests took; of many each sixteenth is timed, and counted as sixteen.");
  each_kind([&](const std::string& name, const KindCount& kind) { out.histogram(kind.took, "kind", name); });
  out.begin("requests_waited_total", "counter", "Requests that were handed to a worker.");
  each_kind([&](const std::string& name, const KindCount& kind) { out.value(kind.waited, "kind", name); });
  out.counter("written_bytes_total", "Data that programs have written.", requests.kinds[kWrite].bytes);

  each_cause("device_reads_total", "Reads of the device.", &IoCounts::reads);
  each_cause("device_read_bytes_total", "Bytes read from the device.", &IoCounts::read_bytes);
  each_cause("device_writes_total", "Writes to the device.", &IoCounts::writes);
  each_cause("device_written_bytes_total", "Bytes written to the device.", &IoCounts::written_bytes);
  out.begin("device_request_duration_seconds", "histogram", "How long requests of the device took.");
  out.histogram(device.read, "request", "read");
  out.histogram(device.write, "request", "write");
  out.histogram(device.flush, "request", "flush");
  out.counter("device_discarded_bytes_total", "Bytes given back to the device.", device.discarded_bytes);

  out.begin("cache_hits_total", "counter", "Blocks of tables that requests found in memory.");
  out.value(store.data.hits, "blocks", "data");
  out.value(store.indexes.hits, "blocks", "index");
  out.begin("cache_misses_total", "counter", "Blocks of tables that requests had to read.");
  out.value(store.data.misses, "blocks", "data");
  out.value(store.indexes.misses, "blocks", "index");

  out.counter("commits_total", "Groups of operations that were committed.", store.commits);
  out.counter("committed_bytes_total", "Bytes of rows that were committed.", store.committed_bytes);
  out.counter("stream_bytes_total", "Data that went to blobs of large files.", store.stream_bytes);
  out.counter("log_syncs_total", "Times that the log was made durable.", store.syncs);
  out.counter("memtable_flushes_total", "Memtables that became tables.", store.flushes);
  out.counter("compactions_total", "Merges of tables that ended.", store.compactions);
  out.counter("compaction_seconds_total", "How long those took.", seconds(store.compaction_ns));
  out.counter("stalls_total", "Commits that had to wait for flushes, merges or space.", store.stalls);
  out.counter("stall_seconds_total", "How long those waited.", seconds(store.stall_ns));
  out.counter("delays_total", "Commits that were slowed down, lest they would have to wait.", store.delays);
  out.counter("delay_seconds_total", "By how much.", seconds(store.delay_ns));
  out.gauge("compaction_debt_bytes", "Bytes that merges still have to write, as RocksDB estimates it.", store.debt_bytes);
  out.gauge("level0_tables", "Tables of level 0, of the family that has more.", store.level0_tables);
  out.gauge("tables", "Tables.", store.tables);
  out.gauge("starved", "1: a merge has found no space, and new data is refused.", store.starved);
  out.gauge("failed", "1: a request of the device has failed, and nothing is written any more.", store.failed);
  out.gauge("lost_ranges", "Ranges of rows that are lost with damaged parts of tables.", store.lost_ranges);

  out.gauge("space_total_bytes", "Bytes of the device for tables and blobs.", store.total_bytes);
  out.gauge("space_free_bytes", "Of these, bytes that nothing has.", volume.table_free.v);
  out.gauge("space_reserve_bytes", "Of the total, bytes that new data does not get.", store.reserve_bytes);
  out.gauge("space_tables_bytes", "Bytes that tables have.", store.table_bytes);
  out.gauge("space_blobs_bytes", "Bytes that blobs have.", store.blob_bytes);
  out.gauge("space_wanted_bytes", "Bytes of tables, blobs and memory that are not obsolete.", store.wanted_bytes);
  out.gauge("log_region_total_bytes", "Bytes of the device for logs.", volume.fixed_total.v);
  out.gauge("log_region_free_bytes", "Of these, bytes that nothing has.", volume.fixed_free.v);

  out.gauge("uncommitted_bytes", "Bytes of operations that are not in the log yet.", tree.uncommitted_bytes);
  out.gauge("memtable_bytes", "Bytes of rows in memory that no table has yet.", store.memtable_bytes);
  out.gauge("cache_bytes", "Memory of cached blocks.", store.cache_bytes);
  out.gauge("inodes", "Inodes at hand.", tree.inodes);
  out.gauge("inode_bytes", "Memory of inodes, about.", tree.inode_bytes);
  return out.take();
}

std::string stats_json(const MountStats& stats, const std::string& mount_point, int indent) {
  const RequestStats& requests = stats.requests;
  const DeviceStats& device = stats.layers.device;
  const VolumeUsage& volume = stats.layers.volume;
  const StoreActivity& store = stats.layers.store;
  const TreeActivity& tree = stats.layers.tree;
  Json json;
  json["mount_point"] = mount_point;
  json["seconds"] = seconds(stats.mounted_ns);
  json["requests"] = Json::object();
  for (std::size_t kind = 0; kind < RequestStats::kKinds; ++kind) {
    const KindCount& count = requests.kinds[kind];
    if (count.count == 0) continue;
    Json& of = json["requests"][kind_name(kind)] = times(count.took);
    of["count"] = count.count;
    of["waited"] = count.waited;
    of["bytes"] = count.bytes;
  }
  json["programs"] = Json::array();
  for (const ProgramCount& program : requests.programs) json["programs"].push_back({{"id", program.id}, {"requests", program.requests}});
  json["other_programs"] = requests.other_programs;
  Json& by_cause = json["device"]["by_cause"] = Json::object();
  for (std::size_t i = 0; i < kIoCauses.size(); ++i) {
    const IoCounts& io = device.by_cause[i];
    by_cause[std::string(kIoCauses[i])] = {
        {"reads", io.reads}, {"read_bytes", io.read_bytes}, {"writes", io.writes}, {"written_bytes", io.written_bytes}};
  }
  json["device"]["read"] = times(device.read);
  json["device"]["write"] = times(device.write);
  json["device"]["flush"] = times(device.flush);
  json["device"]["discarded_bytes"] = device.discarded_bytes;
  const auto lookups = [](const CacheCounts& counts) { return Json{{"hits", counts.hits}, {"misses", counts.misses}}; };
  json["cache"] = {{"data", lookups(store.data)}, {"index", lookups(store.indexes)}};
  json["store"] = {{"commits", store.commits},
                   {"committed_bytes", store.committed_bytes},
                   {"stream_bytes", store.stream_bytes},
                   {"log_syncs", store.syncs},
                   {"memtable_flushes", store.flushes},
                   {"compactions", store.compactions},
                   {"compaction_seconds", seconds(store.compaction_ns)},
                   {"stalls", store.stalls},
                   {"stall_seconds", seconds(store.stall_ns)},
                   {"delays", store.delays},
                   {"delay_seconds", seconds(store.delay_ns)},
                   {"compaction_debt_bytes", store.debt_bytes},
                   {"level0_tables", store.level0_tables},
                   {"tables", store.tables},
                   {"starved", store.starved != 0},
                   {"failed", store.failed != 0},
                   {"lost_ranges", store.lost_ranges}};
  json["space"] = {{"total_bytes", store.total_bytes},       {"free_bytes", volume.table_free.v},      {"reserve_bytes", store.reserve_bytes},
                   {"tables_bytes", store.table_bytes},      {"blobs_bytes", store.blob_bytes},        {"wanted_bytes", store.wanted_bytes},
                   {"log_total_bytes", volume.fixed_total.v}, {"log_free_bytes", volume.fixed_free.v}};
  json["memory"] = {{"uncommitted_bytes", tree.uncommitted_bytes},
                    {"memtable_bytes", store.memtable_bytes},
                    {"cache_bytes", store.cache_bytes},
                    {"inodes", tree.inodes},
                    {"inode_bytes", tree.inode_bytes}};
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lsmfs::cli
