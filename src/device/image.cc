#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lsmfs/device.h"

namespace lsmfs {

namespace {

Result<void> grow(int fd, const std::string& path, ByteCount size) {
  struct stat st;
  if (::fstat(fd, &st) != 0) return make_error(errno, fmt::format("cannot examine {}", path));
  if (!S_ISREG(st.st_mode)) return make_error(EINVAL, fmt::format("{} is not a regular file", path));
  if (static_cast<std::uint64_t>(st.st_size) >= size.v) return {};
  if (size.v > static_cast<std::uint64_t>(INT64_MAX)) return make_error(EFBIG, fmt::format("size of image {}", path));
  if (::ftruncate(fd, static_cast<off_t>(size.v)) != 0) {
    return make_error(errno, fmt::format("cannot grow image {} to {} bytes", path, size.v));
  }
  if (::fsync(fd) != 0) return make_error(errno, fmt::format("cannot sync image {}", path));
  return {};
}

}  // namespace

Result<void> create_image(const std::string& path, ByteCount size, Existing existing) {
  // Only for its owner: an image holds the files of everybody who uses the mount.
  const int exclusive = existing == Existing::refuse ? O_EXCL : 0;
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | exclusive | O_CLOEXEC | O_NONBLOCK, 0600));
  if (!fd) return make_error(errno, fmt::format("cannot create image {}", path));
  auto grown = grow(fd.get(), path, size);
  if (!grown && exclusive != 0) ::unlink(path.c_str());  // nobody else's
  return grown;
}

}  // namespace lsmfs
