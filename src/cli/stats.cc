// lsmfs stats: the numbers of a mount, since it was mounted or between one look and the next.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/numbers/asked.h"
#include "cli/numbers/metrics.h"
#include "cli/numbers/text.h"
#include "cli/stop.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {
namespace {

constexpr double kIntervalMost = 24 * 3600;

std::string title(const Asked& asked, const MountStats& stats, bool between) {
  if (between) return fmt::format("{}: in {}\n", visible(asked.mount_point()), short_time(stats.mounted_ns));
  return fmt::format("{}: mounted for {}\n", visible(asked.mount_point()), clock_time(stats.mounted_ns));
}

// False: it is to stop.
bool pause(StopRequest& stop, Clock::Time due) {
  Clock& clock = system_clock();
  while (!stop.pending()) {
    const Clock::Time now = clock.now();
    if (now >= due) return true;
    clock.sleep(std::min<Clock::Duration>(due - now, kBetweenWords));
  }
  return false;
}

int watch(Asked& asked, double seconds, bool json) {
  StopRequest stop;
  const auto step = std::chrono::duration_cast<Clock::Duration>(std::chrono::duration<double>(seconds));
  auto before = asked.stats();
  Clock::Time due = system_clock().now();
  while (before) {
    due = std::max(due + step, system_clock().now());
    if (!pause(stop, due)) return kOk;
    auto now = asked.stats();
    if (!now) return report({kFailure, asked.explain(now.error())});
    const MountStats between = since(*now, *before);
    if (json) {
      fmt::print("{}\n", stats_json(between, asked.mount_point(), -1));
    } else {
      fmt::print("{}{}\n", title(asked, between, true), stats_text(between));
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) return kOk;  // which main tells
    before = std::move(now);
  }
  return report({kFailure, asked.explain(before.error())});
}

}  // namespace

int stats(const StatsArguments& arguments) {
  if (arguments.interval && !(*arguments.interval >= 0.1 && *arguments.interval <= kIntervalMost)) {
    return report({kUsage, fmt::format("--interval {}: is not from 0.1 to {} seconds", *arguments.interval, kIntervalMost)});
  }
  if (arguments.interval && arguments.prometheus) {
    return report({kUsage, "--prometheus: gives counters, of which Prometheus takes the differences itself; leave --interval out"});
  }
  Asked asked(arguments.path);
  if (const auto problem = asked.problem()) return report(*problem);
  if (arguments.interval) return watch(asked, *arguments.interval, arguments.json);
  const auto stats = asked.stats();
  if (!stats) return report({kFailure, asked.explain(stats.error())});
  if (arguments.json) {
    fmt::print("{}\n", stats_json(*stats, asked.mount_point(), 2));
  } else if (arguments.prometheus) {
    fmt::print("{}", prometheus_text(*stats, asked.mount_point()));
  } else {
    fmt::print("{}{}", title(asked, *stats, false), stats_text(*stats));
  }
  return kOk;
}

}  // namespace lsmfs::cli
