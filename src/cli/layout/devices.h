// The disks whose requests are those of a file system, as the kernel's block events name them: always the whole disk, so a
// partition is a range of it. A device that only maps others (LVM, dm-crypt, md) has no requests of its own; those below count.
//
// The contexts of errors are whole messages.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "cli/layout/request.h"
#include "lsmfs/base.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {

struct TracedDevice {
  std::string name;          // "/dev/sda1"
  std::vector<dev_t> nodes;  // what was asked for: this one, or what lies above it
  DiskNumber disk = 0;
  ByteOffset start;  // on the disk
  ByteCount size;

  // A flush belongs to the whole disk.
  bool holds(const BlockRequest& request) const {
    if (request.disk != disk) return false;
    return request.kind == RequestKind::flush || (request.offset >= start && (request.offset - start) < size);
  }
};
using TracedDevices = std::vector<TracedDevice>;

// Each disk or partition is there once, whatever lies on it.
void add(TracedDevices& devices, const TracedDevices& more);

Result<std::vector<MountEntry>> mounts();
// The number of the block device that was mounted, also as plain FUSE, whose mounts have another. nullopt: it was none.
std::optional<dev_t> source_of(const MountEntry& mount);

// Those of the file system that `path` lies in. Errors: ENOENT, ..., ENODEV (none lies behind it), EOPNOTSUPP.
Result<TracedDevices> devices_of_path(const std::string& path);
// Those of a block device by its path. Errors: ENOENT, ..., ENOTBLK, EOPNOTSUPP (its requests cannot be traced).
Result<TracedDevices> devices_of_node(const std::string& node);

inline constexpr const char* kSysfsDevices = "/sys/dev/block";
// The same by its number. `sysfs`: where there is a folder for each.
Result<TracedDevices> devices_of_number(dev_t number, const std::string& sysfs = kSysfsDevices);

}  // namespace lsmfs::cli
