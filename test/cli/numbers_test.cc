// The numbers of a mount, as people and programs read them.

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "cli/numbers/metrics.h"
#include "cli/numbers/screen.h"
#include "cli/numbers/text.h"

namespace lsmfs::cli::numbers_test {
namespace {

// All numbers as large as they get in `years` of a busy mount.
MountStats stats_of(std::uint64_t n) {
  MountStats stats;
  stats.mounted_ns = n;
  for (auto& kind : stats.requests.kinds) {
    kind = {n, {}, n / 3, n};
    kind.took.buckets.fill(n / HistogramCounts::kBuckets);
    kind.took.sum_ns = n;
  }
  for (auto& cause : stats.layers.device.by_cause) cause = {n / 16, n / 16, n / 16, n / 16};
  stats.layers.device.read = stats.layers.device.write = stats.layers.device.flush = stats.requests.kinds[0].took;
  stats.layers.volume = {ByteCount{n}, ByteCount{n}, ByteCount{n}, ByteCount{n}, ByteCount{n}, ByteCount{n}, ByteCount{n}, n};
  StoreActivity& store = stats.layers.store;
  for (auto* number : {&store.commits, &store.committed_bytes, &store.stream_bytes, &store.syncs, &store.flushes, &store.compactions,
                       &store.compaction_ns, &store.stalls, &store.stall_ns, &store.delays, &store.delay_ns, &store.memtable_bytes,
                       &store.cache_bytes, &store.debt_bytes, &store.level0_tables, &store.tables, &store.table_bytes, &store.blob_bytes,
                       &store.wanted_bytes, &store.total_bytes, &store.reserve_bytes, &store.lost_ranges}) {
    *number = n / 2;
  }
  store.data = store.indexes = {n / 2, n / 2};
  store.starved = store.failed = n != 0;
  stats.layers.tree = {n, n, n};
  return stats;
}

TEST(NumbersText, FitsIntoEightyColumnsHoweverLargeTheyAre) {
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{999'999}, std::uint64_t{123'456'789'012}, UINT64_MAX / 8}) {
    std::istringstream lines(stats_text(stats_of(n)));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), kNumbersWidth) << line;
  }
  for (const auto& line : program_lines({{std::string(200, 'x'), UINT64_MAX}, {"\033[2J", 1}}, UINT64_MAX / 2, 5)) {
    EXPECT_LE(line.size(), kNumbersWidth) << line;
    EXPECT_EQ(line.find('\033'), std::string::npos) << "the name of a program is its own choice";
  }
}

TEST(NumbersText, WritesTimesShort) {
  EXPECT_EQ(short_time(0), "-");
  EXPECT_EQ(short_time(1280), "1.28 us");
  EXPECT_EQ(short_time(9'996), "10.0 us");
  EXPECT_EQ(short_time(12'345'678), "12.3 ms");
  EXPECT_EQ(short_time(999'600), "1.00 ms");
  EXPECT_EQ(short_time(137'000'000'000), "137 s");
  EXPECT_EQ(clock_time(std::uint64_t{93'784} * 1'000'000'000), "26:03:04");
}

TEST(NumbersText, KnowsNoAmplificationOfNothing) {
  EXPECT_FALSE(write_amplification({}));
  MountStats stats;
  stats.layers.store.committed_bytes = 100;
  stats.layers.store.stream_bytes = 100;
  stats.layers.device.by_cause[static_cast<std::size_t>(IoCause::log)].written_bytes = 150;
  stats.layers.device.by_cause[static_cast<std::size_t>(IoCause::flush)].written_bytes = 150;
  EXPECT_DOUBLE_EQ(write_amplification(stats).value(), 1.5);
}

TEST(NumbersText, PutsTheBusiestFirst) {
  MountStats stats;
  stats.requests.kinds[3].count = 5;
  stats.requests.kinds[15].count = 7;
  const auto lines = request_lines(stats);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[1].starts_with("  READ ")) << lines[1];
  const auto programs = program_lines({{"a", 1}, {"b", 3}, {"c", 2}}, 10, 2);
  ASSERT_EQ(programs.size(), 4u);
  EXPECT_TRUE(programs[1].starts_with("  b "));
  EXPECT_NE(programs[3].find("11"), std::string::npos) << "with those that find no place";
}

// The grammar of https://prometheus.io/docs/instrumenting/exposition_formats/, as far as it is used.
struct Exposition {
  std::map<std::string, std::string> types;  // of metrics
  std::set<std::string> samples;             // names with labels
  std::map<std::string, double> values;

  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    static const std::regex kSample(R"re(([a-z_0-9]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (\S+))re");
    std::istringstream lines(text);
    std::string helped, metric;
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string mark, keyword, name, rest;
      if (line.starts_with("# HELP ")) {
        words >> mark >> keyword >> helped;
        EXPECT_GT(line.size(), helped.size() + 10) << "says nothing: " << line;
        continue;
      }
      if (line.starts_with("# TYPE ")) {
        words >> mark >> keyword >> name >> rest;
        EXPECT_EQ(name, helped) << "TYPE follows HELP";
        EXPECT_TRUE(types.emplace(name, rest).second) << name << " comes twice";
        metric = name;
        continue;
      }
      std::smatch match;
      if (!std::regex_match(line, match, kSample)) {
        ADD_FAILURE() << "no sample: " << line;
        continue;
      }
      name = match[1];
      std::string base = name;
      if (types[metric] == "histogram") base = std::regex_replace(name, std::regex("_(bucket|sum|count)$"), "");
      EXPECT_EQ(base, metric) << "not below its TYPE";
      EXPECT_EQ(name.ends_with("_total"), types[metric] == "counter") << name;
      EXPECT_TRUE(samples.insert(name + "{" + match[2].str() + "}").second) << "twice: " << line;
      values[name + "{" + match[2].str() + "}"] = std::stod(match[3]);
    }
  }
};

TEST(Prometheus, GetsItsFormat) {
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{5}, UINT64_MAX / 8}) {
    const Exposition exposition(prometheus_text(stats_of(n), "/data"));
    EXPECT_GT(exposition.types.size(), 30u);
    EXPECT_EQ(exposition.types.at("lsmfs_request_duration_seconds"), "histogram");
  }
}

TEST(Prometheus, GetsHistogramsWhoseBucketsGrowUpToTheCount) {
  MountStats stats;
  for (const std::uint64_t ns : {500, 2'000, 2'000, 3'000'000}) stats.requests.kinds[15].took.add(ns);
  stats.requests.kinds[15].took.add(200'000'000'000);
  stats.requests.kinds[15].count = 5;
  const Exposition exposition(prometheus_text(stats, "/data"));
  const std::string labels = R"({mount="/data",kind="READ")";
  std::map<double, double> buckets;
  for (const auto& [sample, value] : exposition.values) {
    const std::string before = "lsmfs_request_duration_seconds_bucket" + labels + ",le=\"";
    if (sample.starts_with(before)) buckets[std::stod(sample.substr(before.size()))] = value;  // "+Inf", too
  }
  ASSERT_GT(buckets.size(), 10u);
  double last = 0;
  for (const auto& [bound, count] : buckets) {
    EXPECT_GE(count, last) << bound;
    last = count;
  }
  EXPECT_EQ(buckets.begin()->second, 1) << "below 1.024 us";
  EXPECT_EQ(buckets.upper_bound(0.000002)->second, 3);
  EXPECT_EQ(buckets.upper_bound(1)->second, 4);
  EXPECT_EQ(last, 5);
  EXPECT_EQ(exposition.values.at("lsmfs_request_duration_seconds_count" + labels + "}"), 5);
  EXPECT_NEAR(exposition.values.at("lsmfs_request_duration_seconds_sum" + labels + "}"), 200.003, 0.001);
}

TEST(Prometheus, GetsAMountPointOfAnyBytes) {
  const Exposition exposition(prometheus_text({}, "/a\"b\\c\nd\xff"));
  EXPECT_TRUE(exposition.samples.contains("lsmfs_failed{mount=\"/a\\\"b\\\\c\\nd\xef\xbf\xbd\"}"));
}

TEST(StatsJson, IsJsonWhateverTheMountPointIs) {
  const auto json = nlohmann::json::parse(stats_json(stats_of(7), "/a\"\xff", 2));
  EXPECT_EQ(json["requests"]["READ"]["count"], 7);
  EXPECT_EQ(json["device"]["by_cause"].size(), kIoCauses.size());
  EXPECT_EQ(json["store"]["failed"], true);
  const std::string line = stats_json({}, "/data", -1);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(line)["requests"].empty());
}

std::string text_of(const std::string& path) {
  std::ifstream file(std::string(LSMFS_SOURCE) + "/" + path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Board, AsksForNumbersThatThereAre) {
  const Exposition exposition(prometheus_text(stats_of(9), "/data"));
  const auto board = nlohmann::json::parse(text_of("contrib/grafana/lsmfs.json"));
  const std::regex name("lsmfs_[a-z0-9_]+");
  int seen = 0;
  const auto known = [&](const std::string& expression) {
    for (std::sregex_iterator it(expression.begin(), expression.end(), name); it != std::sregex_iterator(); ++it, ++seen) {
      const std::string metric = it->str(), base = std::regex_replace(metric, std::regex("_(bucket|sum|count)$"), "");
      const auto type = exposition.types.find(exposition.types.contains(metric) ? metric : base);
      ASSERT_NE(type, exposition.types.end()) << expression;
      EXPECT_EQ(type->second == "histogram", base != metric) << expression;
    }
  };
  for (const auto& panel : board["panels"]) {
    for (const auto& target : panel["targets"]) known(target["expr"]);
  }
  for (const auto& variable : board["templating"]["list"]) known(variable["query"].dump());
  EXPECT_GT(seen, 20);
}

TEST(StatsPage, NamesNumbersAndCausesThatThereAre) {
  const Exposition exposition(prometheus_text(stats_of(9), "/data"));
  const std::string page = text_of("docs/stats.md");
  const std::regex name("`(lsmfs_[a-z0-9_]+)");
  int seen = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), name); it != std::sregex_iterator(); ++it, ++seen) {
    const std::string metric = (*it)[1];
    if (!metric.ends_with('_')) {
      EXPECT_TRUE(exposition.types.contains(metric)) << metric;
    }
  }
  EXPECT_GT(seen, 4);
  for (const std::string_view cause : kIoCauses) EXPECT_NE(page.find("\n| `" + std::string(cause) + "` |"), page.npos) << cause;
}

TEST(Screen, ShowsWhatFits) {
  const std::vector<std::string> lines{"title", "\xc3\xa4\xc3\xb6\xc3\xbc", "third"};
  EXPECT_EQ(drawing(lines, {2, 2}), "\033[H\033[7mti\033[0m\r\n\xc3\xa4\xc3\xb6\033[K");
  EXPECT_EQ(drawing(lines, {5, 7}), "\033[H\033[7mtitle  \033[0m\r\n\xc3\xa4\xc3\xb6\xc3\xbc\033[K\r\nthird\033[K\r\n\033[J");
}

}  // namespace
}  // namespace lsmfs::cli::numbers_test
