// How programs talk to the daemon of a mount: by an ioctl of any file or directory on it.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs {

// Errors: those of open(2); ENOTTY for devices, FIFOs and sockets, whose requests of the same number would be others.
Result<Fd> open_on_mount(const std::string& path);

// `data`: what the request takes or gives, or nothing. Errors: those of ioctl(2).
Result<void> mount_ioctl(const Fd& fd, const std::string& path, unsigned long request, void* data);
// Both.
Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data = nullptr);

}  // namespace lsmfs
