// lsmfs mount: opens everything, mounts, and serves until it is unmounted.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/contents.h"
#include "cli/daemon.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/host.h"
#include "cli/kept_options.h"
#include "cli/limits.h"
#include "cli/log.h"
#include "cli/memory.h"
#include "cli/messages.h"
#include "cli/mount_options.h"
#include "cli/nbd_source.h"
#include "cli/opened.h"
#include "cli/paths.h"
#include "cli/remount.h"
#include "cli/sizes.h"
#include "cli/snapshot_mount.h"
#include "cli/snapshot_names.h"
#include "cli/sources.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

int exit_code_of(const Error& error) {
  switch (error.code) {
    case EACCES:
    case EPERM:
      return kUsage;
    case ENOMEM:
    case ENODEV:
      return kSystemError;
    default:
      return kMountFailure;
  }
}

std::optional<Problem> check_mount_point(const std::string& directory, const std::string& source) {
  const auto found = mounted_at(directory);
  if (!found) return Problem{kSystemError, found.error().message()};
  const auto& top = *found;
  struct stat facts {};
  const int code = stat(directory.c_str(), &facts) == 0 ? 0 : errno;
  if (code == ENOTCONN) {
    return Problem{kMountFailure, fmt::format("{}: is a mount whose daemon is gone; take it away with umount -l {}",
                                              directory, directory)};
  }
  if (code == ENOENT) return Problem{kMountFailure, directory + ": does not exist; make the directory first"};
  if (code == EACCES) return Problem{kUsage, directory + ": no permission to mount there"};
  if (code != 0) return Problem{kMountFailure, make_error(code, directory).message()};
  if (!S_ISDIR(facts.st_mode)) return Problem{kMountFailure, directory + ": is not a directory"};
  // The mount point of an automounter, which waits for this mount.
  if (top && top->type == "autofs") return std::nullopt;
  if (top && top->source == source) {
    return Problem{kMountFailure, fmt::format("{}: {} is mounted here already", directory, source)};
  }
  if (top) {
    return Problem{kMountFailure, fmt::format("{}: is in use as the mount point of {} ({}); choose another directory",
                                              directory, top->source, top->type)};
  }
  return std::nullopt;
}

// Errors of what Mount::start says, in words for the mount point.
std::string explain_mounting(const std::string& directory, const Error& error) {
  switch (error.code) {
    case ENODEV:
      return "/dev/fuse: is not there; load the kernel module with modprobe fuse";
    case EINTR:
      return directory + ": was told to stop before it was mounted";
    case EBUSY:
      return directory + ": is in use, or the device is; unmount it first";
    case EPERM:
      if (error.context.starts_with("fusermount3")) return fmt::format("{}: {}", directory, error.context);
      return fmt::format("{}: no permission to mount ({})", directory, error.context);
    case ENOENT:
      if (error.context == "fusermount3") return "fusermount3: is not installed, and only root can mount without it";
      [[fallthrough]];
    default:
      return fmt::format("{}: {}", directory, error.message());
  }
}

class Service {
 public:
  struct LogPlace {
    std::string file;  // or none
    bool foreground = false;
  };
  Service(const std::string& path, const std::string& directory, const ParsedOptions& options, const LogPlace& place, std::shared_ptr<Log> log)
      : path_(path), directory_(directory), options_(options), log_place_(place), log_(std::move(log)) {}

  int run(Starter& starter) {
    if (const auto problem = begin(starter)) {
      // The terminal hears of it anyway.
      if (!log_is_terminal()) log_->warn(problem->text);
      // Before the word goes out, so that nothing of this attempt is left when the command returns.
      mount_.reset();
      opened_.reset();
      starter.failed(*problem);
      return problem->exit_code;
    }
    int code = kOk;
    bool ready = false;
    const auto note = [&](const Result<void>& result, const char* what) {
      if (result) return;
      log_->warn(fmt::format("{}: {}: {}", path_, what, result.error().message()));
      code = kMountFailure;
    };
    const auto served = mount_->serve(
        [&] {
          ready = true;
          log_->info(fmt::format("{} is mounted at {}{}", path_, directory_, options_.read_only ? ", read-only" : ""));
          starter.ready();
        },
        [&] {
          note(opened_->close(), "closing");
          here_->claims.release();
          // A device must be free when umount(8) returns, which is after this. The lock on an image
          // stays until the process ends, which is what `lsmfs umount` waits for. Who connected to a server ends here.
          if (block_device_ || is_nbd(path_)) opened_->release_device();
        });
    if (!served && !ready) {
      const Problem problem = problem_of_showing(served.error());
      if (!log_is_terminal()) log_->warn(problem.text);
      mount_.reset();
      starter.failed(problem);
      return problem.exit_code;
    }
    note(served, "serving");
    log_->info(fmt::format("{} is unmounted", path_));
    return code;
  }

 private:
  bool log_is_terminal() const { return log_place_.foreground && log_place_.file.empty(); }

  std::optional<Problem> begin(Starter& starter) {
    LayerOptions layers = layer_options(options_);
    here_.emplace();
    const auto writer = options_.read_only ? std::nullopt : std::optional(here_->holder);
    auto device = open_source(path_, options_.read_only ? Access::read_only : Access::read_write, Sharing::locked,
                              {.patience = layers.timeout, .writer = writer, .notice = [this](std::string_view line) { log_->warn(line); }});
    if (!device) return problem_of_device(device.error());

    if (const auto ours = refuse_others(**device, [this](std::string_view line) { log_->warn(line); }); !ours) return problem_of_device(ours.error());

    MountOptions& mount = layers.mount;
    OpenOptions& open = layers.open;
    open.tree.sweeps = true;
    mount.source = path_;
    mount.mount_point = directory_;
    mount.block_device = block_device_ = (*device)->is_block_device() && geteuid() == 0;
    mount.notice = [this](std::string_view line) {
      log_->warn(line);
      if (prepares_for_ != nullptr && !log_is_terminal()) prepares_for_->notice(line);
    };
    follow_log(mount);
    prepares_for_ = &starter;
    const auto prepared = prepare_mount(mount);
    prepares_for_ = nullptr;
    if (!prepared) return problem_of_mounting(prepared.error());
    const std::uint64_t pid_namespace = process_namespace();
    open.holder = here_->holder;
    // Before anything of the device is decoded, and while there is one thread, from which all others inherit it.
    confine(mount.notice);

    if (const auto problem = claim(**device)) return problem;
    open.notice = mount.notice;
    open.opening = [&](std::string_view line) {
      log_->warn(line);
      starter.notice(line);
    };
    if (!(*device)->writable()) warn_of_writer(**device, open.holder, open.opening);
    auto opened = Opened::open(std::move(*device), open);
    if (!opened) return problem_of_device(opened.error());
    opened_.emplace(std::move(*opened));
    if (options_.snapshot) {
      if (auto missing = missing_snapshot(opened_->tree(), path_, *options_.snapshot)) return missing;
    }
    const MountFacts facts{directory_, lasting(layers), getpid(), pid_namespace};
    auto started = Mount::start(opened_->tree(), mount, administration(facts));
    if (!started) return problem_of_mounting(started.error());
    mount_ = std::move(*started);
    return std::nullopt;
  }

  std::optional<Problem> claim(Device& device) {
    const auto info = read_volume_info(device);
    if (!info) return problem_of_device(info.error());
    if (here_->claims.claim(info->uuid)) return std::nullopt;
    return Problem{kMountFailure, fmt::format("{}: a file system with its UUID, {}, is mounted already; it is the same one, or this is a "
                                              "copy of it: unmount that first", path_, info->uuid.text())};
  }

  Problem problem_of_device(const Error& error) const {
    return {exit_code_of(error), explain(path_, error) + (error.code == EROFS ? "; mount it with -o ro" : "")};
  }
  Problem problem_of_mounting(const Error& error) const {
    return {exit_code_of(error), explain_mounting(directory_, error)};
  }
  // Of a file system that is mounted, and not to be seen yet.
  Problem problem_of_showing(const Error& error) const {
    return options_.snapshot && error.code != EINTR ? Problem{exit_code_of(error), explain_showing(directory_, error)} : problem_of_mounting(error);
  }

  Administration administration(const MountFacts& facts) {
    return {.info_json = [this, facts] { return facts_json(*opened_, &facts); },
            .stats = [this] { return opened_->stats(); },
            .label = [this] { return opened_->volume().info().label; },
            .set_label = [this](std::string_view label) { return set_label(label); },
            .grow = [this](std::optional<ByteCount> size) -> Result<ByteCount> {
              LSMFS_TRY(opened_->store().grow(size));
              return opened_->volume().info().device_size;
            }};
  }

  // After a remount as read-only the volume can be written, and must not.
  Result<void> set_label(std::string_view label) {
    LSMFS_TRY(check_label(label));
    if (opened_->tree().read_only()) return make_error(EROFS, path_);
    return opened_->volume().change({.label = std::string(label)});
  }

  void follow_log(MountOptions& mount) const {
    // Who has no file to open again goes on, but for a program in a terminal that is closed.
    if (!log_place_.file.empty()) {
      mount.open_log = [file = log_place_.file] { return Log::open_file(file); };
      mount.log_opened = [log = log_](Result<Fd> file) {
        if (file) return log->use(std::move(*file));
        log->warn(fmt::format("the log cannot be opened again, and goes on where it was: {}", file.error().message()));
      };
    } else if (!log_place_.foreground) {
      mount.open_log = [] { return Result<Fd>(Fd()); };
    }
    mount.died = [place = log_place_, path = path_, directory = directory_] {
      const auto log = Log::open(place.file, place.foreground);
      if (!log) return;
      (*log)->warn(fmt::format("{}: its daemon was killed or broke down; what was not synced is lost. {} answers nothing any more: "
                               "umount it, and mount again", path, directory));
    };
  }

  std::string path_, directory_;
  ParsedOptions options_;
  const LogPlace log_place_;
  std::shared_ptr<Log> log_;
  bool block_device_ = false;
  Starter* prepares_for_ = nullptr;  // who hears of changes of the machine that it makes for this mount
  std::optional<Host> here_;  // with its claims as long as the process lives, which is what `lsmfs umount` waits for
  std::optional<Opened> opened_;
  std::unique_ptr<Mount> mount_;
};

// For nofail: a server that is not reached is not there, either.
bool is_missing(const std::string& path) {
  if (!is_nbd(path)) {
    const auto there = check_there(path);
    return !there && there.error().code == ENOENT;
  }
  const auto device = open_source(path, Access::read_only, Sharing::shared, {.notice = [](std::string_view) {}});
  constexpr std::array kAway{ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ENOENT, ETIMEDOUT};
  return !device && std::ranges::count(kAway, device.error().code) > 0;
}

// What mount(8) -f asks for: would it work, as far as that can be said without doing it?
int fake(const std::string& path) {
  const auto device = open_source(path, Access::read_only, Sharing::shared);
  const auto ours = device ? refuse_others(**device, tell) : Result<void>(device.error());
  const auto info = ours ? read_volume_info(**device) : Result<VolumeInfo>(ours.error());
  if (!info) return report({exit_code_of(info.error()), explain(path, info.error())});
  return kOk;
}

}  // namespace

int mount(const MountArguments& arguments) {
  const auto options = parse_mount_options(arguments.options, arguments.sloppy);
  if (!options) return report({kUsage, options.error().context});
  const auto source = find_source(arguments.path);
  if (!source && source.error().code == ENOENT && options->nofail) return kOk;
  if (!source) return report({kMountFailure, source.error().context});
  const std::string path = *source, directory = absolute_path(arguments.directory);
  if (options->nofail && is_missing(path)) return kOk;
  if (options->remount) return remount(path, directory, *options, arguments.fake);
  if (options->snapshot && geteuid() != 0) {
    return report({kUsage, fmt::format("option snapshot: only root can mount a snapshot alone; mount all of {}, which has it as {}", path, snapshot_path(*options->snapshot))});
  }
  if (arguments.repeats && options->snapshot && shows_snapshot(directory, path, *options->snapshot)) return kOk;
  if (const auto problem = check_mount_point(directory, path)) return report(*problem);
  if (const auto there = check_there(path); !there) return report({exit_code_of(there.error()), explain(path, there.error())});
  struct stat facts {};
  (void)stat(path.c_str(), &facts);  // of a server there are none
  if (options->snapshot) {
    if (const auto beside = mount_snapshot_beside(path, directory, *options, arguments.fake)) return beside->exit_code == kOk ? kOk : report(*beside);
  }
  raise_limits();
  if (const auto most = largest_file(); most && !options->read_only && S_ISREG(facts.st_mode) && static_cast<std::uint64_t>(facts.st_size) > *most) {
    return report({kMountFailure, fmt::format("{}: is larger than a file may be that is written here, {}; raise that limit (ulimit -f unlimited)",
                                              path, format_size(*most))});
  }
  if (const auto user = in_use_for_good(path, tell)) {
    return report({kMountFailure, used_by(path, *user)});
  }
  if (access("/dev/fuse", F_OK) != 0) {
    return report({kSystemError, explain_mounting(directory, make_error(ENODEV, ""))});
  }

  if (arguments.fake) return fake(path);

  auto merged = arguments.options;
  if (const auto kept = kept_options(path); kept && !kept->empty()) {
    if (const auto known = check_kept_options(*kept)) {
      merged.insert(merged.begin(), *kept);
    } else {
      tell(fmt::format("{}: the options that it keeps, {}, are not taken: {}", path, *kept, known.error().context));
    }
  }
  const auto all = parse_mount_options(merged, arguments.sloppy);
  if (!all) return report({kUsage, all.error().context});

  keep_little_free_memory();
  const std::string log_file = arguments.log.empty() ? "" : absolute_path(arguments.log);
  auto log = Log::open(log_file, arguments.foreground);
  if (!log) return report({kUsage, fmt::format("--log {}", log.error().message())});
  return run_and_report(!arguments.foreground, [&](Starter& starter) {
    static std::optional<Service> until_the_process_ends;
    return until_the_process_ends.emplace(path, directory, *all, Service::LogPlace{log_file, arguments.foreground}, *log).run(starter);
  });
}

}  // namespace lsmfs::cli
