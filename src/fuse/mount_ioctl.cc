#include "fuse/mount_ioctl.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

namespace lsmfs {

Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data) {
  // O_NONBLOCK, so that a FIFO does not hold us up.
  const Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat facts {};
  if (!fd || fstat(fd.get(), &facts) != 0) return make_error(errno, path);
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return make_error(ENOTTY, path);
  if (ioctl(fd.get(), request, data) != 0) return make_error(errno, path);
  return {};
}

}  // namespace lsmfs
