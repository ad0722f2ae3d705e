// What lsmfs accepts of the kernel's offers in INIT that libfuse, or its older versions, know nothing of: the reply that
// libfuse makes is changed on its way out. Constants and structures are those of linux/fuse.h, whose older versions lack some.
//
// Threads: one, before all others.
#pragma once

#include <sys/types.h>

struct fuse_in_header;
struct iovec;

namespace lsmfs {

class Handshake {
 public:
  // Looks at what is offered. `io_uring`: whether that is wanted. Must hold: the message is whole, and an INIT.
  void begin(const fuse_in_header& init, bool io_uring);
  // From begin() until the reply has been sent.
  bool open() const { return open_; }
  // Sends the reply, as writev(2).
  ssize_t answer(int fd, const iovec* parts, int count);
  // Whether the kernel waits for rings now.
  bool io_uring() const { return io_uring_; }

 private:
  bool open_ = false, killpriv_ = false, io_uring_ = false;
};

}  // namespace lsmfs
