// How programs talk to the daemon of a mount: by an ioctl of any file or directory on it.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs {

// `data`: what the request takes or gives, or nothing. ENOTTY for devices, FIFOs and sockets, whose requests of the same
// number would be others; other errors as of open(2) and ioctl(2).
Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data = nullptr);

}  // namespace lsmfs
