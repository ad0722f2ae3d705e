// Who holds on to a mount of lsmfs: the copies of it in this mount namespace and in those of containers and services, and the
// processes that work in it.
// What it is not: who uses a device; see device_use.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "lsmfs/fuse.h"

namespace lsmfs::cli {

struct MountCopy {
  MountEntry entry;   // its paths are those of its namespace
  pid_t process = 0;  // one that lives in another namespace; 0: it is in this one
  std::string name;   // of the process
  std::string text() const;  // "mounted at ..."
};
// What other mount namespaces show, one for each mount and namespace. A namespace without a process that we may look at is not seen.
std::vector<MountCopy> foreign_mounts();

// Where the file system of `entry`, which was unmounted, is mounted still.
std::vector<MountCopy> mounts_left_of(const MountEntry& entry);

// "bash (123)": who else works in the file system of `entry`, as far as we may look. Asks no daemon.
std::vector<std::string> processes_in(const MountEntry& entry);

}  // namespace lsmfs::cli
