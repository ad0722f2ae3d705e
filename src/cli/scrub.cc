// lsmfs scrub: has all of a mounted file system read and verified, a part at a time, and tells how far it is.
//
// The rate is kept here, between the parts: each, a table (of 32 MiB, seldom more) or a log file, is read as fast as the device
// gives it.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "cli/progress_line.h"
#include "cli/rate.h"
#include "cli/sizes.h"
#include "cli/stop.h"
#include "lsmfs/clock.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

using Seconds = std::chrono::duration<double>;

// Less than half of what a hard disk reads in order, so that others find it idle half of the time; 1 TiB takes five hours.
constexpr ByteCount kRate{64 * MiB};

std::string explain_scrubbing(const std::string& path, const Error& error) {
  switch (error.code) {
    case ENOTTY:
      return path + ": is not in an lsmfs that is mounted";
    case EPERM:
      return path + ": only root and who mounted it may scrub it";
    case ENOTCONN:
    case ECONNABORTED:
      return path + ": the daemon of the mount is gone; take it away with umount -l";
    default:
      return explain(path, error);
  }
}

std::string format_time(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds + 0.5);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

class Scrub {
 public:
  Scrub(const std::string& path, ByteCount rate, StopRequest& stop) : path_(path), rate_(rate), stop_(stop) {}

  Result<void> run() {
    auto done = scrub_mount(path_, [this](const ScrubStep& step) { return after(step); });
    clear();
    return done;
  }

  std::uint64_t problems() const { return problems_; }
  // "1.20 GiB verified in 0:00:19 (64.0 MiB/s)"
  std::string summary() const {
    return fmt::format("{} verified in {} ({}/s)", format_size(verified_), format_time(elapsed()), format_size(speed()));
  }

 private:
  bool after(const ScrubStep& step) {
    verified_ += step.read.v;
    left_ = step.left.v;
    for (const auto& line : step.damage) {
      clear();
      say(path_, line);
      ++problems_;
    }
    std::fflush(stdout);
    while (true) {
      show();
      if (stop_.pending()) return false;
      const auto early = left_ == 0 ? Clock::Duration::zero() : early_by(ByteCount{verified_}, clock_.now() - begin_, rate_);
      if (early <= Clock::Duration::zero()) return true;
      clock_.sleep(std::min<Clock::Duration>(early, kBetweenWords));
    }
  }

  double elapsed() const { return Seconds(clock_.now() - begin_).count(); }
  std::uint64_t speed() const { return static_cast<std::uint64_t>(static_cast<double>(verified_) / std::max(elapsed(), 0.001)); }

  void show() {
    const auto now = clock_.now();
    if (!line_.can_show() || (shown_ && now - *shown_ < kBetweenWords)) return;
    shown_ = now;
    const std::uint64_t lasting = rate_.v == 0 ? speed() : std::min(speed(), rate_.v);
    const std::uint64_t all = std::max<std::uint64_t>(verified_ + left_, 1);
    const double percent = 100.0 * static_cast<double>(verified_) / static_cast<double>(all);
    const double left = static_cast<double>(left_) / static_cast<double>(std::max<std::uint64_t>(lasting, 1));
    line_.show(path_, fmt::format("{} of {} verified ({} %), {}/s, {} left", format_size(verified_), format_size(all),
                                  static_cast<unsigned>(percent), format_size(lasting), format_time(left)));
  }
  void clear() {
    line_.clear();
    shown_.reset();
  }

  const std::string path_;
  const ByteCount rate_;
  StopRequest& stop_;
  ProgressLine line_;
  Clock& clock_ = system_clock();
  const Clock::Time begin_ = clock_.now();
  std::optional<Clock::Time> shown_;
  std::uint64_t verified_ = 0, left_ = 0, problems_ = 0;
};

// The exit code; ends the process by `stopped_by` if that says so.
int run(const std::string& path, ByteCount rate, const std::string& device, int& stopped_by) {
  StopRequest stop;
  Scrub scrub(path, rate, stop);
  const auto done = scrub.run();
  const std::string found = scrub.problems() == 0 ? "no damage found" : counted_problems(scrub.problems()) + " found";
  if (!done && stop.pending()) {
    stopped_by = stop.signal();
    return report({kFailure, fmt::format("{}: stopped before the end: {}, {}", path, scrub.summary(), found)});
  }
  if (!done && done.error().code == ENOTTY) return report({kFailure, path + ": its daemon is too old to scrub; mount it again"});
  if (!done) return report({kFailure, explain_scrubbing(path, done.error())});
  say(path, fmt::format("{}, {}", scrub.summary(), found));
  if (scrub.problems() == 0) return kOk;
  say(path, "nothing repaired: unmount it and run lsmfs fsck -y " + device);
  return kScrubDamage;
}

}  // namespace

int scrub(const ScrubArguments& arguments) {
  const auto rate = arguments.rate.empty() ? std::optional(kRate) : parse_size(arguments.rate);
  if (!rate) {
    return report({kUsage, fmt::format("--rate {}: is not a number of bytes, such as 10M; 0 stands for no limit", arguments.rate)});
  }
  const std::string path = absolute_path(arguments.path);
  // Others may know a request of the same number.
  const auto ours = query_mount(path);
  if (!ours) return report({kFailure, explain_scrubbing(path, ours.error())});
  int stopped_by = 0;
  const int code = run(path, *rate, device_in_facts(*ours), stopped_by);
  if (stopped_by != 0) {
    std::fflush(nullptr);
    end_by(stopped_by);
  }
  return code;
}

}  // namespace lsmfs::cli
