// The ioctl by which a daemon is asked for its facts: read-only, JSON text, on any file or
// directory of the mount.
#pragma once

#include <sys/ioctl.h>

#include <cstddef>

namespace lsmfs {

// The kernel takes a reply of at most the size in the ioctl's number, which has 14 bits for it.
inline constexpr std::size_t kFactsMax = 16380;
inline constexpr unsigned long kFactsIoctl = _IOR('L', 0xf5, char[kFactsMax]);

}  // namespace lsmfs
