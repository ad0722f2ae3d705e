// fusermount3, the set-user-id program that mounts and unmounts for ordinary users.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs {

// `options`: comma-separated. Gives the descriptor of /dev/fuse that serves the mount.
// Errors: EPERM with fusermount3's own words, ENOENT when it is not installed.
Result<Fd> fusermount_mount(const std::string& mount_point, const std::string& options);
// Errors: EBUSY, EPERM.
Result<void> fusermount_unmount(const std::string& mount_point, bool lazy);

}  // namespace lsmfs
