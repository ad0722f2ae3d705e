// The first exchange with the kernel, INIT: libfuse makes the reply, and what lsmfs accepts of the kernel's offers besides, which
// libfuse or its older versions know nothing of, is added on its way out. Constants and structures are those of linux/fuse.h,
// whose older versions lack some.
//
// libfuse writes its reply to a pipe that takes the place of /dev/fuse for as long. It could be asked to let others write, by
// fuse_session_custom_io; but from 3.18.3 on that is left out of most builds.
//
// Threads: one, before all others.
#pragma once

#include <functional>

#include "lsmfs/base.h"

struct fuse_in_header;

namespace lsmfs {

class Handshake {
 public:
  // Makes the pipe, to be done while there are the rights to.
  static Result<Handshake> make();

  // Replies to `init`, a whole message. `by_libfuse` has libfuse reply to it, on the descriptor `fuse`, that of /dev/fuse.
  // `io_uring`: whether that is wanted. Errors: EPROTO when libfuse gives no reply, and those of the system.
  Result<void> run(int fuse, const fuse_in_header& init, bool io_uring, const std::function<void()>& by_libfuse);
  // Whether the kernel waits for rings now.
  bool io_uring() const { return io_uring_; }

 private:
  Handshake(Fd from, Fd to) : from_(std::move(from)), to_(std::move(to)) {}

  Fd from_, to_;  // the pipe's ends
  bool io_uring_ = false;
};

}  // namespace lsmfs
