#include "cli/removal.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>

#include "cli/exit_codes.h"
#include "cli/located.h"
#include "cli/paths.h"
#include "cli/snapshot_mount.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

// Where the snapshot at the path is mounted as well; empty: nowhere, or it is none.
std::string shown_alone(const std::vector<MountEntry>& mounts, const MountEntry& own, const std::string& path) {
  const std::string inside = in_file_system(own, path);
  const auto found = std::ranges::find_if(mounts, [&](const MountEntry& mount) { return own.shows_same(mount) && mount.root == inside && !snapshot_shown_by(mount).empty(); });
  return found == mounts.end() ? "" : found->mount_point;
}

// Why the directory cannot be removed where it is mounted, or because of what is mounted on it; empty: it can be.
std::string hindered_by_mounts(const std::string& path) {
  const auto mounts = mount_table();
  if (!mounts) return fmt::format("{}: what is mounted below cannot be told: {}", path, mounts.error().message());
  const auto own = own_mount(*mounts, path);
  if (!own) return own.error().context;
  if (!own->is_lsmfs()) return path + ": is not in an lsmfs that is mounted; use rm -r";
  if (own->mount_point == path) return fmt::format("{}: something is mounted there; unmount it, or remove what is in it", path);
  if (const std::string at = shown_alone(*mounts, *own, path); !at.empty()) return fmt::format("{}: is mounted at {}; unmount that first", path, printable(at));
  const std::string within = mounted_within(*mounts, *own, path, Mounted::there_or_below);
  return within.empty() ? "" : fmt::format("{}: something is mounted at {}; unmount that first", path, printable(within));
}

std::string explain_removing(const std::string& path, const Error& error) {
  if (error.code == EROFS || error.code == EBUSY) {
    if (is_directory_of_snapshots(path)) return path + ": holds the snapshots, and is always there; remove those in it";
    if (const auto snapshot = snapshot_around(path.substr(0, std::max<std::size_t>(path.rfind('/'), 1))); !snapshot.empty()) {
      return fmt::format("{}: lies in the snapshot {}, in which nothing changes; remove that as a whole", path, snapshot);
    }
  }
  switch (error.code) {
    case ENOTTY:
      return path + ": is not in an lsmfs that is mounted; use rm -r";
    case EACCES:
      return path + ": only root and who mounted it may remove it so, and with the mount option user_rm its owner, who may write where it is";
    case EPERM:
      return path + ": it, the directory that it is in or something below it is immutable or append-only; see lsattr -R, chattr";
    case EROFS:
      return path + ": is mounted read-only";
    case EBUSY:
      return path + ": is the root of the file system; remove what is in it";
    case EAGAIN:
      return path + ": what is below it is being changed by others; try again";
    default:
      return explain(path, error);
  }
}

}  // namespace

std::optional<Problem> remove_directory(std::string given) {
  while (given.size() > 1 && given.ends_with('/')) given.pop_back();
  const std::string last = given.substr(given.rfind('/') + 1);
  if (last == "." || last == "..") return Problem{kFailure, given + ": . and .. are not removed; name the directory"};
  struct stat facts {};
  if (lstat(given.c_str(), &facts) != 0) return Problem{kFailure, explain(given, make_error(errno, given))};
  if (!S_ISDIR(facts.st_mode)) return Problem{kFailure, given + ": is not a directory; use rm"};
  const std::string path = absolute_path(given);
  if (auto why = hindered_by_mounts(path); !why.empty()) return Problem{kFailure, std::move(why)};
  // Others may know a request of the same number.
  if (const auto ours = query_mount(path); !ours) return Problem{kFailure, explain_removing(path, ours.error())};
  if (const auto removed = remove_tree_of_mount(path); !removed) return Problem{kFailure, explain_removing(path, removed.error())};
  return std::nullopt;
}

}  // namespace lsmfs::cli
