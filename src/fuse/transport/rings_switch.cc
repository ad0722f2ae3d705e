#include "fuse/transport/rings_switch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

namespace lsmfs {

Result<bool> RingsSwitch::is_on() const {
  if (access(path_.c_str(), F_OK) != 0) {
    const Fd loads_the_module(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  }
  std::ifstream file(path_);
  char said = 0;
  if (!file.get(said)) return make_error(ENOTSUP, "the kernel has no FUSE over io_uring, which came with Linux 6.14");
  return said == 'Y';
}

Result<void> RingsSwitch::turn_on() const {
  const Fd file(open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  if (file && write(file.get(), "Y", 1) == 1) return {};
  return make_error(errno, fmt::format("the kernel has that switched off, and Y cannot be written to {}", path_));
}

}  // namespace lsmfs
