// Mounts a file system where nobody sees it, and has one directory of it appear at the mount point: nothing else of it is ever seen there.
//
// A process of its own mounts it in a mount namespace of its own, and looks for the directory. That takes until the file system is served.
// What is found comes back as a mount that is not attached yet. When the process has ended, nothing but that shows the file system.
// For root alone. Threads: all functions belong to one.
#pragma once

#include <sys/types.h>

#include <string>

#include "lsmfs/fuse.h"

namespace lsmfs {

class UnseenMount {
 public:
  // `options`: `shows` is the directory. The mount point must be there. Errors: EPERM, EMFILE and the like.
  static Result<UnseenMount> begin(const MountOptions& options);
  UnseenMount(UnseenMount&& other) noexcept;
  UnseenMount& operator=(UnseenMount&&) = delete;
  ~UnseenMount();  // nothing is left of it but what is shown. Must hold: nobody serves it any more, or it is shown

  // Once, first: the descriptor of /dev/fuse that serves it. Errors as Mount::start.
  Result<Fd> device();
  // Readable when show() need not wait, and good for nothing else, whoever has it.
  int found() const { return found_.get(); }
  // Once: attaches the directory at the mount point. Errors: those of finding it, as ENOENT, and of move_mount(2).
  Result<void> show();

 private:
  UnseenMount(std::string mount_point, Fd place, Fd channel, Fd found, pid_t process)
      : mount_point_(std::move(mount_point)), place_(std::move(place)), channel_(std::move(channel)), found_(std::move(found)), process_(process) {}
  Result<Fd> receive();
  void wait_for_end();

  std::string mount_point_;
  Fd place_;    // the mount point
  Fd channel_;  // to the process
  Fd found_;    // a pipe, at whose other end is the process
  pid_t process_;
};

}  // namespace lsmfs
