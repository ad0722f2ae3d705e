#include "fuse/drop_caches_ioctl.h"

#include <fcntl.h>
#include <unistd.h>

#include "lsmfs/fuse.h"

namespace lsmfs {

Result<void> drop_caches_of_mount(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return make_error(errno, path);
  const int code = ioctl(fd, kDropCachesIoctl) == 0 ? 0 : errno;
  close(fd);
  if (code != 0) return make_error(code, path);
  return {};
}

}  // namespace lsmfs
