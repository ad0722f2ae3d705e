#include "fuse/mounting/attachment.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fuse/mounting/kernel_mount.h"
#include "lsmfs/fuse.h"

namespace lsmfs {
namespace {

// Of linux/mount.h, which does not go with sys/mount.h of older C libraries.
constexpr unsigned kTreeClone = 1, kFromEmptyPath = 4, kToEmptyPath = 0x40;  // OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOVE_MOUNT_T_EMPTY_PATH

struct KernelMountAttributes {  // struct mount_attr
  std::uint64_t set = 0, clear = 0, propagation = 0, user_namespace = 0;
};
struct AttributeOfFlag {
  unsigned long flag;  // of mount(2)
  std::uint64_t attribute;
};
constexpr std::uint64_t kAttributeReadOnly = 1;
constexpr AttributeOfFlag kAttributes[] = {{MS_NOSUID, 2}, {MS_NODEV, 4}, {MS_NOEXEC, 8}, {256, 0x200000}};  // the last: MS_NOSYMFOLLOW

}  // namespace

Result<Fd> open_part(const std::string& whole, const std::string& part) {
  const Fd root(open(whole.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root) return make_error(errno, whole);
  // Links are the daemon's to give, and lead anywhere.
  open_how how{.flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
  Fd found(static_cast<int>(syscall(SYS_openat2, root.get(), part.c_str(), &how, sizeof how)));
  if (!found) return make_error(errno, whole + "/" + part);
  return found;
}

Result<Fd> detached_copy(const Fd& part, const std::vector<std::string>& kernel_options, const std::string& name) {
  Fd mount(static_cast<int>(syscall(SYS_open_tree, part.get(), "", kTreeClone | AT_EMPTY_PATH | O_CLOEXEC)));
  if (!mount) return make_error(errno, name);
  KernelMountAttributes attributes{.set = kAttributeReadOnly};
  unsigned long flags = 0;
  for (const auto& option : kernel_options) apply_flag(option, flags);
  for (const auto& [flag, attribute] : kAttributes) attributes.set |= (flags & flag) != 0 ? attribute : 0;
  if (syscall(SYS_mount_setattr, mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) != 0) return make_error(errno, name);
  return mount;
}

Result<void> attach(const Fd& mount, const Fd& place, const std::string& name) {
  if (syscall(SYS_move_mount, mount.get(), "", place.get(), "", kFromEmptyPath | kToEmptyPath) == 0) return {};
  return make_error(errno, name);
}

Result<void> mount_part(const Fd& part, const std::string& mount_point, const std::vector<std::string>& kernel_options) {
  const Fd place(open(mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!place) return make_error(errno, mount_point);
  LSMFS_ASSIGN(const Fd copy, detached_copy(part, kernel_options, mount_point));
  return attach(copy, place, mount_point);
}

}  // namespace lsmfs
