#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lsmfs/fuse.h"

namespace lsmfs {

Result<ByteCount> trim_mount(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return make_error(errno, path);
  fstrim_range range{0, UINT64_MAX, 0};
  const int code = ioctl(fd, FITRIM, &range) == 0 ? 0 : errno;
  close(fd);
  if (code != 0) return make_error(code, path);
  return ByteCount{range.len};
}

}  // namespace lsmfs
