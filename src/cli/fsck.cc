// lsmfs fsck: looks whether all of a file system is sound. It only reads.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/opened.h"
#include "cli/sources.h"

namespace lsmfs::cli {
namespace {

using std::chrono::steady_clock;

constexpr ByteCount kCache{64 * MiB};  // nothing is read twice
constexpr auto kQuietAtFirst = std::chrono::seconds(2);
constexpr auto kBetweenWords = std::chrono::milliseconds(200);

// How far it is: on the terminal, when it takes a while or is asked for; or as lines for the program that started us,
// in the form of e2fsck -C.
class Progress {
 public:
  Progress(const std::string& path, std::optional<int> asked)
      : path_(path),
        fd_(asked && *asked > 0 ? asked : std::nullopt),
        terminal_(!fd_ && isatty(STDERR_FILENO)),
        quiet_until_(asked ? last_ : last_ + kQuietAtFirst) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

  void begin(std::uint64_t total) {
    total_ = std::max<std::uint64_t>(total, 1);
    show(0);
  }
  void at(std::uint64_t bytes) {
    const auto now = steady_clock::now();
    if (now - last_ < kBetweenWords) return;
    last_ = now;
    // What is read is not exactly what was to be expected.
    show(std::min<std::uint64_t>(bytes * 100 / total_, 99));
  }
  void end() { show(100); }

 private:
  void show(std::uint64_t percent) {
    if (fd_) {
      const std::string line = fmt::format("1 {} 100 {}\n", percent, path_);
      if (write(*fd_, line.data(), line.size()) < 0) fd_.reset();  // nobody listens
    } else if (terminal_ && last_ >= quiet_until_) {
      fmt::print(stderr, "\r\033[Klsmfs: {}: checking, {} %", path_, percent);
      shown_ = true;
    }
  }

  const std::string path_;
  std::optional<int> fd_;
  const bool terminal_;
  steady_clock::time_point last_ = steady_clock::now();
  const steady_clock::time_point quiet_until_;
  std::uint64_t total_ = 1;
  bool shown_ = false;
};

class Check {
 public:
  Check(const std::string& path, const FsckArguments& arguments) : path_(path), arguments_(arguments) {}

  int run() {
    if (const auto user = in_use(path_)) {
      return report({kFsckOperational, fmt::format("{}: is in use: {}; unmount it or end that first", path_, *user)});
    }
    const auto done = check();
    if (done) return finish(*done);
    const Error& error = done.error();
    // What keeps it from being opened is damage, and the end of what can be found.
    if (error.code != EUCLEAN && error.code != ENOSPC) return report({kFsckOperational, explain(path_, error)});
    CheckReport damage;
    damage.problems.push_back(error.context);
    return finish(damage);
  }

 private:
  Result<CheckReport> check() {
    Progress progress(path_, arguments_.progress);
    LSMFS_ASSIGN(const auto device, open_device(path_, Access::read_only, Sharing::exclusive));
    confine(tell);
    LSMFS_TRY(read_volume_info(*device, {.notice = [this](std::string_view line) { superblocks_.emplace_back(line); }}));
    LSMFS_ASSIGN(const auto volume, Volume::open(*device));
    StoreOptions options{.cache = kCache, .read_only = true};
    if (arguments_.verbose) options.notice = [this](std::string_view line) { say(line); };
    LSMFS_ASSIGN(const auto store, Store::open(*volume, options));
    const StoreStats stats = store->stats();
    progress.begin(stats.table_bytes + stats.raw_bytes + stats.memtable_bytes);
    auto report = check_tree(*store, [&](std::uint64_t bytes) { progress.at(bytes); });
    if (report) progress.end();
    LSMFS_TRY(store->close());
    return report;
  }

  // The lines name the path once.
  void say(std::string_view line) const {
    fmt::print("{}{}\n", line.starts_with(path_) ? "" : path_ + ": ", line);
  }

  int finish(const CheckReport& found) const {
    for (const auto& line : superblocks_) say(line);
    for (const auto& line : found.problems) say(line);
    if (found.more_problems > 0) say(fmt::format("and {} more", found.more_problems));
    const std::uint64_t problems = superblocks_.size() + found.problems.size() + found.more_problems;
    if (problems > 0) {
      say(fmt::format("{} problem{} found, nothing repaired: lsmfs fsck only reads{}", problems, problems == 1 ? "" : "s",
                      arguments_.repair ? ", also with -a, -p and -y" : ""));
      return kFsckUncorrected;
    }
    const TreeCounts& counts = found.counts;
    say(fmt::format("clean: {} files, {} directories, {} symbolic links, {} others", counts.regular, counts.directories,
                    counts.symlinks, counts.others));
    if (found.unused > 0) say(fmt::format("the next mount erases {} files that were removed while they were open", found.unused));
    return kOk;
  }

  const std::string path_;
  const FsckArguments& arguments_;
  std::vector<std::string> superblocks_;  // what is wrong with them
};

}  // namespace

int fsck(const FsckArguments& arguments) {
  // Every exit code has its meaning for fsck(8); "reboot" is that of most other failures here.
  try {
    const auto source = find_source(arguments.path);
    if (!source) return report({kFsckOperational, source.error().context});
    return Check(*source, arguments).run();
  } catch (const std::exception& error) {
    return report({kFsckOperational, error.what()});
  }
}

}  // namespace lsmfs::cli
