#include "fuse/transport/handshake.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fuse/transport/message.h"

namespace lsmfs {
namespace {

constexpr std::uint32_t kHandleKillprivV2 = 1u << 28;
constexpr std::uint32_t kInitExt = 1u << 30;       // there is a second word of flags
// In the second word: FUSE_ALLOW_IDMAP and FUSE_OVER_IO_URING >> 32.
constexpr std::uint32_t kAllowIdmap = 1u << 8, kOverIoUring = 1u << 9;

// The whole of it has to be that of the message, see fuse_out_header.
struct Reply {
  fuse_out_header header;
  fuse_init_out body;
};
static_assert(sizeof(Reply) == sizeof(fuse_out_header) + sizeof(fuse_init_out));

Error last_error(const char* what) { return make_error(errno, what); }

}  // namespace

Result<Handshake> Handshake::make() {
  int ends[2];
  // Whoever finds nothing in it is not to wait.
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return last_error("a pipe");
  return Handshake(Fd(ends[0]), Fd(ends[1]));
}

Result<void> Handshake::run(int fuse, const fuse_in_header& init, bool io_uring, const std::function<void()>& by_libfuse) {
  const auto offer = body_of<fuse_init_in>(init);
  const Fd kernel(fcntl(fuse, F_DUPFD_CLOEXEC, 0));
  if (!kernel || dup3(to_.get(), fuse, O_CLOEXEC) < 0) return last_error("a descriptor for INIT");
  by_libfuse();
  if (dup3(kernel.get(), fuse, O_CLOEXEC) < 0) return last_error("the descriptor of /dev/fuse");

  Reply reply{};
  const ssize_t got = read(from_.get(), &reply, sizeof reply);
  from_.reset();
  to_.reset();
  if (got < static_cast<ssize_t>(sizeof reply.header)) return make_error(EPROTO, "libfuse gives no reply to INIT");
  // Not in an error, nor in the short form that old kernels want.
  constexpr std::size_t kHasFlags2 = offsetof(Reply, body.flags2) + sizeof reply.body.flags2;
  if (static_cast<std::size_t>(got) >= kHasFlags2) {
    if (offer.flags & kHandleKillprivV2) reply.body.flags |= kHandleKillprivV2;
    std::uint32_t more = offer.flags & kInitExt ? offer.flags2 & (kAllowIdmap | kOverIoUring) : 0;
    if (!io_uring) more &= ~kOverIoUring;
    io_uring_ = (more & kOverIoUring) != 0;
    if (more != 0) reply.body.flags |= kInitExt;
    reply.body.flags2 |= more;
  }
  if (write(fuse, &reply, static_cast<std::size_t>(got)) < 0) return last_error("the reply to INIT");
  return {};
}

}  // namespace lsmfs
