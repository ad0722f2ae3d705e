#include "fuse/mount_ioctl.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

namespace lsmfs {

Result<Fd> open_on_mount(const std::string& path) {
  // O_NONBLOCK, so that a FIFO does not hold us up.
  Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat facts {};
  if (!fd || fstat(fd.get(), &facts) != 0) return make_error(errno, path);
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return make_error(ENOTTY, path);
  return fd;
}

Result<void> mount_ioctl(const Fd& fd, const std::string& path, unsigned long request, void* data) {
  if (::ioctl(fd.get(), request, data) != 0) return make_error(errno, path);
  return {};
}

Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  return mount_ioctl(fd, path, request, data);
}

}  // namespace lsmfs
