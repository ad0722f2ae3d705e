// lsmfs-simdisk BACKING_FILE MOUNT_POINT: opens the file, mounts, and serves until it is unmounted.

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "cli/sizes.h"
#include "simdisk/commands.h"
#include "simdisk/messages.h"
#include "simdisk/server.h"

namespace lsmfs::simdisk {
namespace {

constexpr unsigned kWorkers = 8;  // requests whose data is moved at the same time

// A message for people, or nothing.
std::optional<std::string> check_mount_point(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    if (errno == ENOTCONN) return path + ": is a mount whose program is gone; take it away with umount -l";
    return explain(path, make_error(errno, path));
  }
  if (!S_ISDIR(facts.st_mode)) return path + ": is not a directory; name one to mount at";
  return std::nullopt;
}

// Makes or extends the file if there is a size; a message for people, or nothing.
std::optional<std::string> check_backing(const std::string& path, std::optional<ByteCount> size) {
  struct stat facts {};
  const bool exists = stat(path.c_str(), &facts) == 0;
  if (exists && !S_ISREG(facts.st_mode)) return explain(path, make_error(ENOTBLK, path));
  if (!size) {
    if (!exists && errno == ENOENT) return path + ": does not exist; give --size to make a sparse file of that size";
    if (exists && static_cast<std::uint64_t>(facts.st_size) < kDeviceBlock) {
      return path + ": is too small for a disk; give --size to extend it";
    }
    return std::nullopt;
  }
  if (exists && static_cast<std::uint64_t>(facts.st_size) > size->v) {
    return fmt::format("{}: has {} bytes already; give no --size, or a larger one", path, facts.st_size);
  }
  if (const auto made = create_image(path, *size); !made) {
    return made.error().code == ENOENT ? path + ": its folder does not exist; make it first" : explain(path, made.error());
  }
  return std::nullopt;
}

int exit_code_of(const Error& error) {
  if (error.code == EPERM || error.code == EACCES) return cli::kUsage;
  return error.code == ENODEV || error.code == ENOMEM ? cli::kSystemError : cli::kMountFailure;
}

}  // namespace

int serve_command(const ServeArguments& arguments) {
  const auto profile = profile_of(arguments.profile);
  if (!profile) {
    return fail(cli::kUsage, fmt::format("--profile {}: is not known; choose one of {}", arguments.profile, profile_names()));
  }
  const auto size = arguments.size.empty() ? std::nullopt : cli::parse_size(arguments.size);
  if (!arguments.size.empty() && (!size || size->v < kDeviceBlock)) {
    return fail(cli::kUsage, fmt::format("--size {}: is not a size of 4K or more; write 20G or 512M", arguments.size));
  }
  if (const auto problem = check_mount_point(arguments.mount_point)) return fail(cli::kMountFailure, *problem);
  const std::string mount_point = std::filesystem::canonical(arguments.mount_point);
  if (const auto problem = check_backing(arguments.backing, size)) return fail(cli::kMountFailure, *problem);
  auto device = open_device(arguments.backing, Access::read_write, Sharing::locked);
  if (!device) return fail(exit_code_of(device.error()), explain(arguments.backing, device.error()));

  // All before the workers, which inherit it. The kernel frees memory by writing to this disk, which must therefore not wait
  // for free memory itself; where that is not permitted, it works as long as there is some.
  prctl(PR_SET_IO_FLUSHER, 1UL, 0UL, 0UL, 0UL);
  hold_back_signals();
  go_before_others();
  Workers workers(kWorkers, "simdisk-worker", system_clock());
  Backing backing(std::move(*device));
  Disk disk(backing, workers,
            {.profile = *profile, .path = std::chrono::microseconds(arguments.path_us), .sync = arguments.sync});
  const ServerOptions options{.source = std::filesystem::absolute(arguments.backing).lexically_normal(),
                              .mount_point = mount_point,
                              .on_ready =
                                  [] {
                                    fmt::print("ready\n");
                                    std::fflush(stdout);
                                  },
                              .notice = tell};
  const auto served = serve(disk, workers, options);
  if (!served) return fail(exit_code_of(served.error()), explain(mount_point, served.error()));
  return cli::kOk;
}

}  // namespace lsmfs::simdisk
