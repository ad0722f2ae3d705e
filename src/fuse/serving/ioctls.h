// The ioctls on files and directories of a mount: which commands are answered, and with what.
//
// The kernel hands on those whose argument it can copy by the size in the command's number; a few it
// keeps to itself (FIEMAP, FICLONE, FIFREEZE, ...).
#pragma once

#include <cstddef>

#include "fuse/transport/libfuse.h"

namespace lsmfs {

// For the table of handlers. ENOTTY for a command that is not in the table here.
void ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void* argument, fuse_file_info* file, unsigned flags,
           const void* in, std::size_t in_size, std::size_t out_size);

}  // namespace lsmfs
