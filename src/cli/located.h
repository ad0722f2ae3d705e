// Where a path lies: in which mount, where in the file system that is mounted there, and where that has its snapshots.
//
// Paths here are absolute and as the mount table writes them (paths.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {

// Whether a path is another one or below it.
bool is_within(std::string_view path, std::string_view above);
// Where a path below a mount point lies in the file system that is mounted there: "/" is its root.
std::string in_file_system(const MountEntry& mount, std::string_view path);
// The one of `mounts` that shows what is at the path, a link for itself. The context of an error is a whole message.
Result<MountEntry> own_mount(const std::vector<MountEntry>& mounts, const std::string& path);

// Of `mounts`, one below a directory of the mount `own`, or also on it, also where that is reached by another path, as by a bind mount. Empty:
// none.
enum class Mounted : std::uint8_t { below, there_or_below };
std::string mounted_within(const std::vector<MountEntry>& mounts, const MountEntry& own, const std::string& path, Mounted where);

// The name of the snapshot that a path of an lsmfs lies in, or is. "": it lies in none, or that cannot be told.
std::string snapshot_around(const std::string& path);
// Whether it is the directory of snapshots itself.
bool is_directory_of_snapshots(const std::string& path);

// The snapshots of the file system that a directory is in.
struct SnapshotsPlace {
  std::string directory;  // where they are
  std::string inside;     // where the directory that was asked for lies in the file system
};
// Must hold: `path` is in an lsmfs. The context of an error is a whole message.
Result<SnapshotsPlace> snapshots_of(const std::string& path);

}  // namespace lsmfs::cli
