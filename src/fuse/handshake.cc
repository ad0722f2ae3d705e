#include "fuse/handshake.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fuse/message.h"

namespace lsmfs {
namespace {

constexpr std::uint32_t kHandleKillprivV2 = 1u << 28;
constexpr std::uint32_t kInitExt = 1u << 30;       // there is a second word of flags
constexpr std::uint32_t kOverIoUring = 1u << 9;    // in the second word: FUSE_OVER_IO_URING >> 32

}  // namespace

void Handshake::begin(const fuse_in_header& init, bool io_uring) {
  const auto offer = body_of<fuse_init_in>(init);
  killpriv_ = offer.flags & kHandleKillprivV2;
  io_uring_ = io_uring && (offer.flags & kInitExt) && (offer.flags2 & kOverIoUring);
  open_ = true;
}

ssize_t Handshake::answer(int fd, const iovec* parts, int count) {
  open_ = false;
  fuse_init_out out{};
  if (count != 2 || parts[1].iov_len < offsetof(fuse_init_out, flags2) + sizeof out.flags2) {
    io_uring_ = false;  // an error, or an old kernel's short form
    return writev(fd, parts, count);
  }
  const std::size_t size = std::min(parts[1].iov_len, sizeof out);
  std::memcpy(&out, parts[1].iov_base, size);
  if (killpriv_) out.flags |= kHandleKillprivV2;
  if (io_uring_) {
    out.flags |= kInitExt;
    out.flags2 |= kOverIoUring;
  }
  const iovec changed[2] = {parts[0], {&out, size}};
  return writev(fd, changed, 2);
}

}  // namespace lsmfs
