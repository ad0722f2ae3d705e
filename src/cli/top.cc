// lsmfs top: the numbers of a mount as a screen, of one second after the other.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/numbers/asked.h"
#include "cli/numbers/screen.h"
#include "cli/numbers/text.h"
#include "cli/stop.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {
namespace {

constexpr auto kStep = std::chrono::seconds(1);
constexpr auto kLook = std::chrono::milliseconds(100);  // for signals, and for another size of the window
constexpr std::size_t kRequestsLeast = 4, kProgramsLeast = 3;

std::string title(const std::string& mount_point, const MountStats& between, const MountStats& now) {
  std::uint64_t requests = 0, waited = 0;
  for (const KindCount& kind : between.requests.kinds) {
    requests += kind.count;
    waited += kind.waited;
  }
  return fmt::format(" {} requests in {}, {} waited; mounted for {}; q ends  {}", requests, short_time(between.mounted_ns), waited,
                     clock_time(now.mounted_ns), visible(mount_point));
}

// What the window has room for: some of each kind, the rest in their order.
std::vector<std::string> lines_of(const std::string& title, const MountStats& between, const std::map<std::string, std::uint64_t>& programs, std::size_t rows) {
  std::vector<std::string> lines{title};
  const auto add = [&lines](std::vector<std::string> more, std::size_t most) {
    more.resize(std::min(more.size(), most));
    lines.insert(lines.end(), more.begin(), more.end());
  };
  add(request_lines(between), 1 + std::max(kRequestsLeast, rows / 4));
  add(program_lines(programs, between.requests.other_programs, std::max(kProgramsLeast, rows / 6)), rows);
  add(device_lines(between), rows);
  add(store_lines(between), rows);
  return lines;
}

int show(Asked& asked) {
  StopRequest stop;
  Clock& clock = system_clock();
  auto before = asked.stats();
  if (!before) return report({kFailure, asked.explain(before.error())});
  std::optional<Error> failed;
  {
    Screen screen;
    const MountStats begin = *before;
    MountStats between = begin;  // until there is a second: since it was mounted
    std::map<std::string, std::uint64_t> programs = asked.programs(between.requests);
    Clock::Time due = clock.now() + kStep;
    WindowSize size = screen.size();
    bool usable = screen.draw(lines_of(title(asked.mount_point(), between, *before), between, programs, size.rows), size);
    while (usable && !stop.pending()) {
      const char key = screen.key(kLook);
      if (key == 'q' || key == 'Q') break;
      const bool resized = screen.size() != size;
      size = screen.size();
      if (clock.now() >= due) {
        auto now = asked.stats();
        if (!now) {
          failed = now.error();
          break;
        }
        between = since(*now, *before);
        programs = asked.programs(between.requests);
        before = std::move(now);
        due = std::max(due + kStep, clock.now());
      } else if (!resized) {
        continue;
      }
      usable = screen.draw(lines_of(title(asked.mount_point(), between, *before), between, programs, size.rows), size);
    }
  }
  return failed ? report({kFailure, asked.explain(*failed)}) : kOk;
}

}  // namespace

int top(const std::string& path) {
  Asked asked(path);
  if (const auto problem = asked.problem()) return report(*problem);
  if (!Screen::can_be_had()) return report({kUsage, "top: needs a terminal to show it; lsmfs stats --interval 1 prints the same"});
  return show(asked);
}

}  // namespace lsmfs::cli
