#include <linux/fs.h>

#include "fuse/mount_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<ByteCount> trim_mount(const std::string& path) {
  fstrim_range range{0, UINT64_MAX, 0};
  LSMFS_TRY(mount_ioctl(path, FITRIM, &range));
  return ByteCount{range.len};
}

}  // namespace lsmfs
