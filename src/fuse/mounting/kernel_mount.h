// Attaches /dev/fuse to a mount point: mount(2) as root, fusermount3 otherwise.
//
// libfuse could do it, but it prints its errors instead of returning them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/fuse.h"

namespace lsmfs {

// Sets or clears in `flags`, of mount(2), what a mount option stands for; false: it is none of those.
bool apply_flag(std::string_view option, unsigned long& flags);

// The labels of SELinux among mount options (context=, ...), each after a comma and with its quotes, as mount(2) wants them. A kernel
// without SELinux refuses them, so there are none then, as for mount(8).
std::string label_options(const std::vector<std::string>& kernel_options, bool selinux);
bool kernel_has_selinux();

// What mount(2) is told beside the flags, for /dev/fuse as `fd` and a mount point of this mode.
std::string mount_data(const MountOptions& options, int fd, unsigned root_mode, bool selinux);

// Gives the descriptor of /dev/fuse that serves the new mount. Errors as Mount::start.
Result<Fd> kernel_mount(const MountOptions& options);

// Whether `entry` is what is visible at its mount point now: somebody may have unmounted, and mounted something else.
bool still_mounted(const MountEntry& entry);

// Sets how far the kernel reads ahead in files of this mount. Only root can, and it is only speed:
// failing is not told.
void set_read_ahead(const MountEntry& entry, unsigned kib);

}  // namespace lsmfs
