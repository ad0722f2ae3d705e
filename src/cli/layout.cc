// lsmfs layout: how well what is read one after another lies one after another on the disk, for any file system.

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/layout/block_trace.h"
#include "cli/layout/caches.h"
#include "cli/layout/devices.h"
#include "cli/layout/report.h"
#include "cli/layout/walk.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "cli/sizes.h"
#include "cli/stop.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {
namespace {

constexpr ByteCount kBufferMin{64 * KiB}, kBufferMax{1 * GiB};  // the kernel takes no less than a few pages

Error cannot_write(const std::string& path) { return make_error(errno, make_error(errno, path + ": cannot be written").message()); }

// A file that is written at the end, but opened before anything is measured.
class Output {
 public:
  static Result<Output> open(const std::string& path) {
    Output output;
    output.path_ = path;
    output.file_ = Fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!output.file_) return cannot_write(path);
    return output;
  }

  Result<void> write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t done = ::write(file_.get(), text.data(), text.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return cannot_write(path_);
      text.remove_prefix(static_cast<std::size_t>(done));
    }
    return {};
  }

  // Whether what is written to both would be mixed up: not in a terminal, or where it is thrown away.
  bool is_same_file(const Output& other) const {
    struct stat one {}, two {};
    if (fstat(file_.get(), &one) != 0 || fstat(other.file_.get(), &two) != 0) return false;
    return one.st_dev == two.st_dev && one.st_ino == two.st_ino && !S_ISCHR(one.st_mode);
  }

 private:
  std::string path_;
  Fd file_;
};

Result<std::optional<Output>> open_output(const std::string& path) {
  if (path.empty()) return std::optional<Output>();
  LSMFS_ASSIGN(Output output, Output::open(path));
  return std::optional(std::move(output));
}

Result<void> print(std::FILE* to, const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0) return {};
  return cannot_write(to == stdout ? "stdout" : "stderr");
}

// ---- what is measured

Result<void> run_command(const std::vector<std::string>& command, StopRequest& stop, LayoutReport& report) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &stop.mask_before());
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int code = posix_spawnp(&child, argv[0], nullptr, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) return make_error(code, make_error(code, command.front() + ": cannot be run").message());
  report.status = stop.wait_for(child);
  return {};
}

Result<void> measure(StopRequest& stop, LayoutReport& report) {
  const auto begin = system_clock().now();
  if (report.command.empty()) {
    LSMFS_ASSIGN(report.walk, read_tree(report.path, [&] { return stop.pending(); }));
  } else {
    LSMFS_TRY(run_command(report.command, stop, report));
  }
  report.seconds = std::chrono::duration<double>(system_clock().now() - begin).count();
  return {};
}

Result<TracedDevices> find_devices(const LayoutArguments& arguments, const std::string& path) {
  if (arguments.devices.empty()) return devices_of_path(path);
  TracedDevices found;
  for (const std::string& node : arguments.devices) {
    LSMFS_ASSIGN(const auto more, devices_of_node(node));
    add(found, more);
  }
  return found;
}

// The contexts of errors are whole messages; EINTR: told to stop.
Result<void> run(const LayoutArguments& arguments, ByteCount buffer, StopRequest& stop) {
  const bool walk = arguments.devices.empty();
  LayoutReport report;
  if (walk) {
    report.path = absolute_path(arguments.operands.front());
  } else {
    report.command = arguments.operands;
  }
  LSMFS_ASSIGN(const TracedDevices devices, find_devices(arguments, report.path));
  LSMFS_ASSIGN(const Fd tracefs, open_tracefs());
  LSMFS_ASSIGN(auto output, open_output(arguments.output));
  LSMFS_ASSIGN(auto trace_file, open_output(arguments.trace));
  if (output && trace_file && output->is_same_file(*trace_file)) {
    return make_error(EINVAL, arguments.trace + ": is the file of --output, too; name another for --trace");
  }

  if (walk || arguments.drop_caches) LSMFS_TRY(drop_caches(devices));
  std::vector<DiskNumber> disks;
  for (const TracedDevice& device : devices) disks.push_back(device.disk);
  LSMFS_ASSIGN(const auto trace, BlockTrace::start(tracefs, disks, buffer));
  LSMFS_TRY(measure(stop, report));
  LSMFS_ASSIGN(const auto recording, trace->stop());
  if (stop.pending()) return make_error(EINTR, "");

  report.count(devices, recording.requests);
  const std::string text = arguments.json ? layout_json(report) : layout_text(report);
  if (trace_file) LSMFS_TRY(trace_file->write(trace_text(devices, recording)));
  if (output) {
    LSMFS_TRY(output->write(text));
  } else {
    LSMFS_TRY(print(walk ? stdout : stderr, text));
  }
  if (report.walk.failures > 0) {
    return make_error(EIO, fmt::format("{} could not be read: {}", report.walk.failures, report.walk.first_failure));
  }
  return {};
}

}  // namespace

int layout(const LayoutArguments& arguments) {
  if (arguments.devices.empty() ? arguments.operands.size() != 1 : arguments.operands.empty()) {
    return report({kUsage, "layout takes either one PATH, or --device DEVICE -- COMMAND ARGUMENTS; see lsmfs layout --help"});
  }
  const auto size = arguments.buffer.empty() ? trace_buffer_default() : parse_size(arguments.buffer);
  if (!size || *size < kBufferMin || *size > kBufferMax) {
    return report({kUsage, fmt::format("--buffer {}: is no size between {} and {}, such as 16M", arguments.buffer,
                                       format_size(kBufferMin.v), format_size(kBufferMax.v))});
  }
  if (geteuid() != 0) return report({kFailure, "only root may trace block devices; run it with sudo"});

  int stopped_by = 0;
  Result<void> done;
  {
    StopRequest stop;
    done = run(arguments, *size, stop);
    if (stop.pending()) stopped_by = stop.signal();
  }
  if (stopped_by != 0) {
    if (!done) tell("stopped by a signal, without a result");
    end_by(stopped_by);
  }
  return done ? kOk : report({kFailure, done.error().context});
}

}  // namespace lsmfs::cli
