#include "cli/layout/caches.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

#include "lsmfs/base.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

Result<void> drop_kernel_caches() {
  constexpr const char* kFile = "/proc/sys/vm/drop_caches";
  const Fd file(open(kFile, O_WRONLY | O_CLOEXEC));
  if (file && write(file.get(), "3", 1) == 1) return {};
  const Error error = make_error(errno, kFile);
  return make_error(error.code, fmt::format("the kernel's caches cannot be dropped: {}", error.message()));
}

bool lies_on(const MountEntry& mount, const TracedDevices& devices) {
  const auto source = source_of(mount);
  return std::any_of(devices.begin(), devices.end(), [&](const TracedDevice& device) {
    return std::any_of(device.nodes.begin(), device.nodes.end(), [&](dev_t node) {
      return source == node || mount.device == fmt::format("{}:{}", major(node), minor(node));
    });
  });
}

}  // namespace

Result<void> drop_caches(const TracedDevices& devices) {
  sync();
  LSMFS_TRY(drop_kernel_caches());
  // The daemons after it, when the kernel has told them what it has forgotten.
  LSMFS_ASSIGN(const auto table, mounts());
  std::vector<std::string> done;
  for (const MountEntry& mount : table) {
    if (!mount.is_lsmfs() || !lies_on(mount, devices) || std::find(done.begin(), done.end(), mount.device) != done.end()) continue;
    const auto dropped = drop_caches_of_mount(mount.mount_point);
    if (!dropped && dropped.error().code == ENOTTY) {
      return make_error(ENOTTY, fmt::format("{}: its daemon is of an older version and cannot drop its caches; mount it again",
                                            mount.mount_point));
    }
    if (!dropped) {
      return make_error(dropped.error().code, fmt::format("{}: the daemon's caches cannot be dropped: {}", mount.mount_point,
                                                          make_error(dropped.error().code, mount.source).message()));
    }
    done.push_back(mount.device);
  }
  return {};
}

}  // namespace lsmfs::cli
