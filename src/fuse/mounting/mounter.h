// The part of a mount's life that takes privileges: attaching it to its mount point, taking it away, opening the log again, letting a
// thread of the policy SCHED_IDLE have the usual one back, and saying where the other threads run.
//
// Threads: all functions from any, one at a time or several.
#pragma once

#include <memory>

#include "fuse/nearness/nearness.h"
#include "fuse/transport/handshake.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

class Mounter {
 public:
  virtual ~Mounter() = default;
  // Once. Gives the descriptor of /dev/fuse that serves the new mount. Errors as Mount::start.
  virtual Result<Fd> mount() = 0;
  // With MountOptions::shows, after mount(): a descriptor that is readable when show() need not wait. That takes until the mount is served.
  virtual Result<Fd> found() = 0;
  // Once: has it appear at the mount point. Errors: as ENOENT.
  virtual Result<void> show() = 0;
  // What can be set when the kernel has had its answer to INIT. Only root can, and it is only speed: failing is not told.
  virtual void tune() = 0;
  // Nothing happens when the mount has gone already. EBUSY (not lazy, and in use), EPERM.
  virtual Result<void> unmount(bool lazy) = 0;
  virtual Result<Fd> open_log() = 0;  // MountOptions::open_log
  // As set_deferring(), for threads of the process that is served. ESRCH: it is not one of those.
  virtual Result<void> set_deferring(pid_t thread, bool defers) = 0;
  // Whether that will be allowed, both ways.
  virtual bool may_set_deferring() = 0;
  // As keep_off(), for the process that is served. mounter_here() does nothing: there are threads that are not the daemon's.
  virtual Result<void> keep_off(int processor, pid_t server) = 0;
};

// Does it in this process.
std::unique_ptr<Mounter> mounter_here(const MountOptions& options);

struct PreparedMount {
  std::unique_ptr<Mounter> mounter;
  Handshake handshake;
  Nearness::Prepared nearness;
};
// For who has not called prepare_mount(), and keeps its privileges.
Result<std::shared_ptr<PreparedMount>> prepare_here(const MountOptions& options);

}  // namespace lsmfs
