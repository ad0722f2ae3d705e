#include "cli/located.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "cli/messages.h"
#include "cli/paths.h"
#include "lsmfs/tree.h"

namespace lsmfs::cli {
namespace {

std::string child_path(const std::string& directory, std::string_view name) { return fmt::format("{}/{}", directory == "/" ? "" : directory, name); }

// Where a path of an lsmfs lies in it; "": that cannot be told.
std::string inside_lsmfs(const std::string& given) {
  const std::string path = absolute_path(given);
  const auto mounts = mount_table();
  if (!mounts) return "";
  const auto own = own_mount(*mounts, path);
  return own && own->is_lsmfs() ? in_file_system(*own, path) : "";
}

}  // namespace

bool is_within(std::string_view path, std::string_view above) {
  if (above == "/") return true;
  return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
}

std::string in_file_system(const MountEntry& mount, std::string_view path) {
  std::string inside = mount.root == "/" ? "" : mount.root;
  inside += path.substr(mount.mount_point == "/" ? 0 : mount.mount_point.size());
  return inside.empty() ? "/" : inside;
}

Result<MountEntry> own_mount(const std::vector<MountEntry>& mounts, const std::string& path) {
  struct statx facts {};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, STATX_MNT_ID, &facts) != 0) return make_error(errno, fmt::format("{}: {}", path, std::strerror(errno)));
  const auto own = std::ranges::find(mounts, facts.stx_mnt_id, &MountEntry::id);
  if (own == mounts.end()) return make_error(ENOENT, path + ": the mount that it is in is not seen from here");
  return *own;
}

std::string mounted_within(const std::vector<MountEntry>& mounts, const MountEntry& own, const std::string& path, Mounted where) {
  const auto is_meant = [where](const std::string& at, const std::string& above) {
    return is_within(at, above) && (where == Mounted::there_or_below || at != above);
  };
  const std::string inside = in_file_system(own, path);
  for (const MountEntry& mount : mounts) {
    if (is_meant(mount.mount_point, path)) return mount.mount_point;
    for (const MountEntry& below : mounts) {
      if (below.id != mount.parent || below.device != own.device || !is_within(mount.mount_point, below.mount_point)) continue;
      if (is_meant(in_file_system(below, mount.mount_point), inside)) return mount.mount_point;
    }
  }
  return "";
}

std::string snapshot_around(const std::string& path) {
  const std::string above = child_path("/", kSnapshotsName) + "/", inside = inside_lsmfs(path);
  if (!inside.starts_with(above)) return "";
  const std::string_view rest = std::string_view(inside).substr(above.size());
  return std::string(rest.substr(0, rest.find('/')));
}

bool is_directory_of_snapshots(const std::string& path) { return inside_lsmfs(path) == child_path("/", kSnapshotsName); }

Result<SnapshotsPlace> snapshots_of(const std::string& given) {
  const std::string path = absolute_path(given);
  const auto mounts = mount_table();
  if (!mounts) return make_error(mounts.error().code, fmt::format("{}: where it is mounted cannot be told: {}", path, mounts.error().message()));
  LSMFS_ASSIGN(const MountEntry own, own_mount(*mounts, path));
  const std::string name(kSnapshotsName);
  if (own.root != "/") {
    return make_error(EXDEV, fmt::format("{}: only a part of the file system is mounted there, without {}; name a path under a mount of the whole", path, name));
  }
  const std::string directory = child_path(own.mount_point, name);
  struct stat of_path {}, facts {};
  if (stat(path.c_str(), &of_path) != 0) return make_error(errno, explain(path, make_error(errno, path)));
  if (lstat(directory.c_str(), &facts) != 0 && errno != ENOENT) return make_error(errno, explain(directory, make_error(errno, directory)));
  if (facts.st_ino != 0 && facts.st_dev != of_path.st_dev) {
    return make_error(EXDEV, fmt::format("{}: is hidden by something else that is mounted there; unmount that first", directory));
  }
  // An older version finds nothing of the name, or an ordinary directory.
  if (facts.st_ino != kSnapshotsIno.v) {
    return make_error(ENOTTY, fmt::format("{}: is mounted by a version that does not know snapshots; unmount it, and mount it again", path));
  }
  return SnapshotsPlace{directory, in_file_system(own, path)};
}

}  // namespace lsmfs::cli
