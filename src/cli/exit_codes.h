// What the commands return to the shell: as mount(8) and umount(8) say; mkfs, info and trim know 0 and 1.
#pragma once

namespace lsmfs::cli {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 1;          // wrong arguments, or no permission
inline constexpr int kSystemError = 2;    // no memory, no fork, no /dev/fuse
inline constexpr int kMountFailure = 32;  // it could not be mounted or unmounted
inline constexpr int kFailure = 1;        // of mkfs, info and trim

}  // namespace lsmfs::cli
