// lsmfs fsck: looks whether all of a file system is sound, and makes it so if that is asked for.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <memory>
#include <vector>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/contents.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/host.h"
#include "cli/messages.h"
#include "cli/opened.h"
#include "cli/progress_line.h"
#include "cli/sources.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {
namespace {

constexpr ByteCount kCache{64 * MiB};  // nothing is read twice
constexpr auto kQuietAtFirst = std::chrono::seconds(2);

// How far it is: on the terminal, when it takes a while or is asked for; or as lines for the program that started us,
// in the form of e2fsck -C.
class Progress {
 public:
  Progress(const std::string& path, std::optional<int> asked)
      : path_(path),
        fd_(asked && *asked > 0 ? asked : std::nullopt),
        quiet_until_(asked ? last_ : last_ + kQuietAtFirst) {}

  void begin(std::uint64_t total) {
    total_ = std::max<std::uint64_t>(total, 1);
    show(0);
  }
  void at(std::uint64_t bytes) {
    const auto now = system_clock().now();
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
    } else if (last_ >= quiet_until_) {
      line_.show(path_, fmt::format("checking, {} %", percent));
    }
  }

  const std::string path_;
  std::optional<int> fd_;
  ProgressLine line_;
  Clock::Time last_ = system_clock().now();
  const Clock::Time quiet_until_;
  std::uint64_t total_ = 1;
};

using Repair = FsckArguments::Repair;

class Check {
 public:
  Check(const std::string& path, const FsckArguments& arguments) : path_(path), arguments_(arguments) {}

  int run() {
    if (const auto user = in_use(path_)) {
      return report({kFsckOperational, used_by(path_, *user)});
    }
    here_.emplace();
    if (const auto opened = open(); !opened) return report({kFsckOperational, explain(path_, opened.error())});
    if (const auto ours = refuse_others(*device_, cli::tell); !ours) return report({kFsckOperational, explain(path_, ours.error())});
    confine(cli::tell);
    if (const auto held = hold(); !held) return report({kFsckOperational, explain(path_, held.error())});
    const auto found = check();
    // What keeps it from being opened is damage, and the end of what can be found; what cannot be read, if it may be repaired.
    if (!found && !is_damage(found.error())) return report({kFsckOperational, explain(path_, found.error())});
    CheckReport damage;
    if (!found) damage.problems.push_back(found.error().context);
    const CheckReport& now = found ? *found : damage;

    tell(now);
    const std::uint64_t problems = copies_.size() + now.all();
    if (problems == 0) {
      tell_counts("clean", now);
      return kOk;
    }
    if (arguments_.repair == Repair::none) {
      say(fmt::format("{} found, nothing repaired: run lsmfs fsck -y to repair what can be", counted_problems(problems)));
      return kFsckUncorrected;
    }
    if (arguments_.repair == Repair::safe && now.all() > now.miscounts) {
      say(fmt::format("{} found, nothing repaired, since something is lost: run lsmfs fsck -y", counted_problems(problems)));
      return kFsckUncorrected;
    }
    return repaired();
  }

 private:
  // Once: what is checked is what is repaired, and nobody else has it in between.
  Result<void> open() {
    const auto try_to = [&](Access access) { return open_source(path_, access, Sharing::exclusive, {.writer = here_->holder}); };
    auto device = try_to(arguments_.repair == Repair::none ? Access::read_only : Access::read_write);
    // It may be sound.
    if (!device && (device.error().code == EROFS || device.error().code == EACCES)) device = try_to(Access::read_only);
    if (!device) return std::move(device.error());
    device_ = std::move(*device);
    return {};
  }

  // Nobody else may write while it does; who only looks is told that somebody may.
  Result<void> hold() {
    LSMFS_TRY(keep_others_out(*device_, *here_));
    if (!device_->writable()) {
      warn_of_writer(*device_, here_->holder, cli::tell);
      return {};
    }
    auto lease = take_lease(*device_, *here_);
    // What keeps it from being read is to be found, and mended.
    if (!lease && lease.error().code == EBUSY) return lease.error();
    if (lease) lease_ = std::move(*lease);
    return {};
  }
  Device& device() { return lease_ ? lease_->device() : *device_; }

  // Of a check that came to no end.
  bool is_damage(const Error& error) const {
    return error.code == EUCLEAN || (error.code == EIO && arguments_.repair == Repair::all);
  }

  // What a repair writes may lie on a part of the device that is bad as well: it counts when all of it has been read.
  int repaired() {
    constexpr int kAttempts = 3;
    for (int attempt = 1;; ++attempt) {
      const auto done = repair();
      if (!done) {
        const Error& error = done.error();
        if (error.code != EUCLEAN) return report({kFsckOperational, explain(path_, error)});
        say(fmt::format("cannot be repaired: {}", error.context));
        return kFsckUncorrected;
      }
      copies_.clear();
      const auto left = check();
      if (left && left->clean() && copies_.empty()) {
        tell_counts("repaired", *left);
        return kFsckCorrected;
      }
      if (attempt < kAttempts) continue;
      if (!left) return report({kFsckOperational, explain(path_, left.error())});
      tell(*left);
      say(fmt::format("{} left", counted_problems(copies_.size() + left->all())));
      return kFsckUncorrected;
    }
  }

  Result<CheckReport> check() {
    Progress progress(path_, arguments_.progress);
    const auto device = read_only_device(this->device());
    LSMFS_ASSIGN(const auto volume, Volume::open(*device, {.notice = [this](std::string_view line) { copies_.emplace_back(line); }}));
    LSMFS_ASSIGN(const auto store, Store::open(*volume, store_options(true)));
    begin(progress, *store);
    auto found = check_tree(*store, [&](std::uint64_t bytes) { progress.at(bytes); });
    if (found) progress.end();
    LSMFS_TRY(store->close());
    return found;
  }

  // From below to above, since each layer needs that those below are sound.
  Result<void> repair() {
    Progress progress(path_, arguments_.progress);
    if (!device_->writable()) return make_error(EROFS, path_);
    const auto device = salvaging_device(this->device(), [this](ByteOffset at) {
      say(fmt::format("the {} bytes at {} cannot be read: taken for zeros", kDeviceBlock, at.v));
    });
    LSMFS_TRY(Volume::repair(*device, [this](std::string_view line) { say(line); }));
    LSMFS_ASSIGN(const auto volume, Volume::open(*device));
    LSMFS_ASSIGN(const StoreRepair tables, Store::repair(*volume, store_options(false)));
    for (const auto& line : tables.lines) say(line);
    for (const auto& lost : tables.lost) {
      say(fmt::format("{}: {}", rows_between(lost.family, lost.after, lost.before),
                      lost.aged ? "some may be as they were earlier, or lost" : "what was there is lost"));
    }
    LSMFS_ASSIGN(const auto store, Store::open(*volume, store_options(false)));
    begin(progress, *store);
    LSMFS_ASSIGN(const RepairReport rows, repair_tree(*store, [&](std::uint64_t bytes) { progress.at(bytes); }));
    for (const auto& line : rows.lines) say(line);
    if (rows.mended > rows.lines.size()) say(fmt::format("and {} more", rows.mended - rows.lines.size()));
    progress.end();
    return store->close();
  }

  StoreOptions store_options(bool read_only) const {
    StoreOptions options{.cache = kCache, .read_only = read_only};
    if (arguments_.verbose) options.notice = [this](std::string_view line) { say(line); };
    return options;
  }

  static void begin(Progress& progress, const Store& store) {
    const StoreStats stats = store.stats();
    progress.begin(stats.table_bytes + stats.raw_bytes + stats.memtable_bytes + stats.blob_bytes);
  }

  // The lines name the path once.
  void say(std::string_view line) const {
    cli::say(path_, line);
  }

  void tell(const CheckReport& found) {
    for (const auto& line : copies_) say(line);
    for (const auto& line : found.problems) say(line);
    if (found.more_problems > 0) say(fmt::format("and {} more", found.more_problems));
  }

  void tell_counts(std::string_view state, const CheckReport& found) const {
    const TreeCounts& counts = found.counts;
    say(fmt::format("{}: {} files, {} directories, {} symbolic links, {} others", state, counts.regular, counts.directories,
                    counts.symlinks, counts.others));
    if (found.removed_trees > 0) say(fmt::format("the next mount goes on to free what was below {} removed directories", found.removed_trees));
    if (found.unused > 0) say(fmt::format("the next mount erases {} files that were removed while they were open", found.unused));
  }

  const std::string path_;
  const FsckArguments& arguments_;
  std::unique_ptr<Device> device_;
  std::optional<Host> here_;
  std::unique_ptr<Lease> lease_;
  std::vector<std::string> copies_;  // damaged ones, of what is there twice
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
