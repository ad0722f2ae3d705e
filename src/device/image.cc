#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include "lsmfs/device.h"

namespace lsmfs {

Result<void> create_image(const std::string& path, ByteCount size) {
  // Only for its owner: an image holds the files of everybody who uses the mount.
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd) return make_error(errno, fmt::format("cannot create image {}", path));
  struct stat st;
  if (::fstat(fd.get(), &st) != 0) return make_error(errno, fmt::format("cannot examine {}", path));
  if (!S_ISREG(st.st_mode)) return make_error(EINVAL, fmt::format("{} is not a regular file", path));
  if (static_cast<std::uint64_t>(st.st_size) >= size.v) return {};
  if (size.v > static_cast<std::uint64_t>(INT64_MAX)) return make_error(EFBIG, fmt::format("size of image {}", path));
  if (::ftruncate(fd.get(), static_cast<off_t>(size.v)) != 0) {
    return make_error(errno, fmt::format("cannot grow image {} to {} bytes", path, size.v));
  }
  if (::fsync(fd.get()) != 0) return make_error(errno, fmt::format("cannot sync image {}", path));
  return {};
}

}  // namespace lsmfs
