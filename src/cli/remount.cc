#include "cli/remount.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/messages.h"
#include "cli/snapshot_mount.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

std::optional<Problem> check_mounted(const std::string& path, const std::string& directory) {
  const auto found = mounted_at(directory);
  if (!found) return Problem{kSystemError, found.error().message()};
  const auto& top = *found;
  if (!top) return Problem{kMountFailure, directory + ": is not mounted"};
  if (!top->is_lsmfs()) {
    return Problem{kMountFailure, fmt::format("{}: is a mount of type {}, not lsmfs", directory, top->type)};
  }
  if (const std::string snapshot = snapshot_shown_by(*top); !snapshot.empty()) {
    return Problem{kMountFailure, fmt::format("{}: shows the snapshot {}, and nothing else can change there; unmount it, and mount it again", directory, snapshot)};
  }
  if (top->source != path) {
    return Problem{kMountFailure, fmt::format("{}: {} is mounted there, not {}", directory, top->source, path)};
  }
  return std::nullopt;
}

// Options that are what they were when it was mounted may be named again, as those of a line in fstab are.
std::optional<Problem> check_lasting(const std::string& directory, const ParsedOptions& options) {
  const auto json = query_mount(directory);
  if (!json && json.error().code == ENOTCONN) {
    return Problem{kMountFailure,
                   fmt::format("{}: is a mount whose daemon is gone; take it away with umount -l {}", directory, directory)};
  }
  if (!json) return Problem{kMountFailure, fmt::format("{}: {}", directory, json.error().message())};
  const auto used = lasting_in_facts(*json);
  if (!used) return Problem{kMountFailure, directory + ": the daemon's answer is not understood; is it of another version?"};
  const auto changed = first_change(options, *used);
  if (!changed) return std::nullopt;
  return Problem{kMountFailure, fmt::format("{}: option {} cannot change while it is mounted; unmount it and mount it again",
                                            directory, *changed)};
}

std::string explain_remounting(const std::string& directory, const Error& error) {
  switch (error.code) {
    case EBUSY:
      return directory + ": is in use; close the files that are open to write, or removed and still open (fuser -vm)";
    case EROFS:
      return directory + ": was mounted read-only; to write, unmount it and mount it again";
    case EACCES:
      return directory + ": the device is read-only";
    case EIO:
      return directory + ": a device error has stopped it; see the log, then unmount it";
    case EPERM:
      return directory + ": only root can remount";
    default:
      return fmt::format("{}: {}", directory, error.message());
  }
}

// To read only, the kernel goes first: it knows who has files open to write. To write again, the tree does.
Result<void> apply(const std::string& directory, const ParsedOptions& options) {
  struct statvfs before {};
  if (statvfs(directory.c_str(), &before) != 0) return make_error(errno, directory);
  if (!options.read_only) LSMFS_TRY(reconfigure_mount(directory, {.tree = {.read_only = false}}));
  const AtimePolicy atime = before.f_flag & ST_NOATIME    ? AtimePolicy::noatime
                            : before.f_flag & ST_RELATIME ? AtimePolicy::relatime
                                                          : AtimePolicy::strictatime;
  const auto kernel = options.kernel_options(atime, !(before.f_flag & ST_NODIRATIME));
  if (auto done = lsmfs::remount(directory, options.read_only, kernel); !done) {
    if (!options.read_only && (before.f_flag & ST_RDONLY)) (void)reconfigure_mount(directory, {.tree = {.read_only = true}});
    return done;
  }
  return reconfigure_mount(directory, changes(options));
}

}  // namespace

int remount(const std::string& path, const std::string& directory, const ParsedOptions& options, bool fake) {
  if (geteuid() != 0) return report({kUsage, directory + ": only root can remount"});
  if (const auto problem = check_mounted(path, directory)) return report(*problem);
  if (const auto problem = check_lasting(directory, options)) return report(*problem);
  if (fake) return kOk;
  if (const auto done = apply(directory, options); !done) {
    return report({kMountFailure, explain_remounting(directory, done.error())});
  }
  return kOk;
}

}  // namespace lsmfs::cli
