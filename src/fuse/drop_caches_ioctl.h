// The ioctl by which root has a daemon write what it has and forget what it has cached, as /proc/sys/vm/drop_caches does for
// the kernel; on any file or directory of the mount.
#pragma once

#include <sys/ioctl.h>

namespace lsmfs {

inline constexpr unsigned long kDropCachesIoctl = _IO('L', 0xf7);

}  // namespace lsmfs
