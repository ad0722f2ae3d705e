#include <sys/mount.h>

#include "fuse/mounting/kernel_mount.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<void> remount(const std::string& mount_point, bool read_only, const std::vector<std::string>& kernel_options) {
  unsigned long flags = 0;
  if (read_only) flags |= MS_RDONLY;
  for (const auto& option : kernel_options) apply_flag(option, flags);
  // SELinux refuses other labels than those that are there.
  const std::string labels = label_options(kernel_options, kernel_has_selinux());
  if (mount(nullptr, mount_point.c_str(), nullptr, MS_REMOUNT | flags, labels.empty() ? nullptr : labels.c_str() + 1) == 0) return {};
  return make_error(errno, mount_point);
}

}  // namespace lsmfs
