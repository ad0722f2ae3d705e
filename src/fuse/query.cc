#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "fuse/facts_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<std::string> query_mount(const std::string& path) {
  // O_NONBLOCK, so that a fifo does not hold us up.
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return make_error(errno, path);
  struct stat facts {};
  std::string json(kFactsMax + 1, '\0');
  // Devices have ioctls of their own, with the same numbers for all we know.
  int code = 0;
  if (fstat(fd, &facts) != 0) {
    code = errno;
  } else if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) {
    code = ENOTTY;
  } else if (ioctl(fd, kFactsIoctl, json.data()) != 0) {
    code = errno;
  }
  close(fd);
  json.resize(json.find('\0'));
  if (code == EINVAL || code == EOPNOTSUPP || code == ENOSYS || (code == 0 && !json.starts_with('{'))) code = ENOTTY;
  if (code != 0) return make_error(code, path);
  return json;
}

}  // namespace lsmfs
