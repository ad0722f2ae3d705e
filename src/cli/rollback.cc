// lsmfs rollback: a directory is again what a snapshot has kept, at once. What was there before is kept by another snapshot.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

Error failure(std::string why) { return make_error(EINVAL, std::move(why)); }

// Of what it was made, in the file system. The context of an error is a whole message, as of all below.
Result<std::string> source_of(const std::string& snapshot) {
  if (auto why = wrong_source(snapshot, "name a snapshot, which is a directory", "only there are snapshots"); !why.empty()) return failure(std::move(why));
  auto info = snapshot_info_of(snapshot);
  if (info) return std::move(info->of);
  switch (info.error().code) {
    case EINVAL:
      return failure(snapshot + ": is not a snapshot; lsmfs snapshots lists them");
    case EACCES:
      return failure(snapshot + ": no permission to read it");
    case EMSGSIZE:
      return make_error(EMSGSIZE, snapshot + ": the path of its source is too long to be told; name the directory");
    default:
      return failure(explain(snapshot, info.error()));
  }
}

// The directory that a snapshot was made of, by the path that it had.
Result<std::string> directory_of(const std::string& snapshot, const std::string& of) {
  LSMFS_ASSIGN(const SnapshotsPlace place, snapshots_of(snapshot));
  const std::string top = place.directory.substr(0, place.directory.rfind('/'));
  const std::string directory = of == "/" ? (top.empty() ? "/" : top) : top + of;
  struct stat facts {};
  if (lstat(directory.c_str(), &facts) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    return failure(fmt::format("{}: is not there any more; name another directory, or copy {} by lsmfs clone", directory, snapshot));
  }
  if (absolute_path(directory) != directory) return failure(directory + ": has become a symbolic link, or lies below one; name the directory itself");
  return directory;
}

// Why the directory cannot be rolled back, as far as that is seen from here; empty: it can be.
std::string wrong_directory(const std::string& directory, const std::string& snapshot) {
  if (auto why = wrong_source(directory, "only a directory is rolled back", "use cp -a"); !why.empty()) return why;
  struct stat facts {}, of_snapshot {};
  if (stat(directory.c_str(), &facts) != 0) return explain(directory, make_error(errno, directory));
  if (stat(snapshot.c_str(), &of_snapshot) != 0) return explain(snapshot, make_error(errno, snapshot));
  if (facts.st_dev != of_snapshot.st_dev) return fmt::format("{}: is in another file system than {}; use cp -a", directory, snapshot);
  const std::string path = absolute_path(directory);
  if (is_directory_of_snapshots(path)) return directory + ": holds the snapshots; name another directory";
  if (const auto kept = snapshot_around(path); !kept.empty()) {
    return fmt::format("{}: lies in the snapshot {}, in which nothing changes; name a directory outside of it", directory, kept);
  }
  const auto mounts = mount_table();
  if (!mounts) return fmt::format("{}: what is mounted below cannot be told: {}", directory, mounts.error().message());
  const auto own = own_mount(*mounts, path);
  if (!own) return own.error().context;
  const std::string within = mounted_within(*mounts, *own, path, Mounted::below);
  return within.empty() ? "" : fmt::format("{}: something is mounted at {}; unmount that first", directory, printable(within));
}

std::string explain_rollback(const std::string& directory, const std::string& snapshot, const Error& error) {
  const bool of_snapshot = error.context == snapshot;
  switch (error.code) {
    case EACCES:
      if (of_snapshot || access(directory.c_str(), R_OK) != 0) return (of_snapshot ? snapshot : directory) + ": no permission to read it";
      return directory + ": only root and who mounted it may roll it back, and with the mount option user_rm who owns both it and the snapshot";
    case EPERM:
      return directory + ": it or something below it is immutable or append-only; see lsattr -R, chattr";
    case EROFS:
      return directory + ": is mounted read-only";
    case EINVAL:
      return snapshot + ": is not a snapshot any more; lsmfs snapshots lists them";
    case ENOSPC:
      return directory + ": no space left on the device";
    case ENOTTY:
      return directory + ": is mounted by a version that does not know rollbacks; unmount it, and mount it again";
    case ESRCH:
      return directory + ": the daemon does not see this process, which is in another process namespace; run it where the mount was made";
    case EAGAIN:
      return directory + ": what is below it is being changed by others; try again";
    default:
      return explain(of_snapshot ? snapshot : directory, make_error(error.code, ""));
  }
}

// What is there, unless it is not to be kept. Empty: nothing is.
Result<std::string> keep(const std::string& directory, bool discard) {
  if (discard) return std::string();
  auto kept = snapshot_before("rollback", directory);
  if (!kept) return failure(fmt::format("{}; with --discard what is there is not kept", kept.error().context));
  return kept;
}

}  // namespace

int rollback(const RollbackArguments& arguments) {
  const std::string snapshot = without_trailing_slashes(arguments.snapshot);
  const auto of = source_of(snapshot);
  if (!of && !(arguments.directory && of.error().code == EMSGSIZE)) return report({kFailure, of.error().context});
  const auto directory = arguments.directory ? Result<std::string>(without_trailing_slashes(*arguments.directory)) : directory_of(snapshot, *of);
  if (!directory) return report({kFailure, directory.error().context});
  if (const auto why = wrong_directory(*directory, snapshot); !why.empty()) return report({kFailure, why});
  // Who may not is told before anything is made.
  if (const auto may = roll_back_in_mount(*directory, snapshot, RollBack::only_asks); !may) return report({kFailure, explain_rollback(*directory, snapshot, may.error())});
  const auto kept = keep(*directory, arguments.discard);
  if (!kept) return report({kFailure, kept.error().context});
  if (const auto done = roll_back_in_mount(*directory, snapshot); !done) {
    std::string why = explain_rollback(*directory, snapshot, done.error());
    if (!kept->empty() && !remove_tree_of_mount(*kept)) why += fmt::format(" ({} was made for it)", *kept);
    return report({kFailure, why});
  }
  if (!kept->empty()) print_path(*kept);
  return kOk;
}

}  // namespace lsmfs::cli
