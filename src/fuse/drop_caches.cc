#include "fuse/drop_caches_ioctl.h"
#include "fuse/mount_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<void> drop_caches_of_mount(const std::string& path) { return mount_ioctl(path, kDropCachesIoctl); }

}  // namespace lsmfs
