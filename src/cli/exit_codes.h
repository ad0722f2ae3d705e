// What the commands return to the shell: as mount(8) and umount(8) say; mkfs, info, clone, snapshot, snapshots, rm, trim, scrub, stats, top and layout know 0 and 1, scrub also 4;
// fsck as fsck(8) says.
#pragma once

namespace lsmfs::cli {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 1;          // wrong arguments, or no permission
inline constexpr int kSystemError = 2;    // no memory, no fork, no /dev/fuse
inline constexpr int kMountFailure = 32;  // it could not be mounted or unmounted
inline constexpr int kFailure = 1;        // of mkfs, info, clone, snapshot, snapshots, rm, trim, scrub, stats, top and layout
inline constexpr int kScrubDamage = 4;   // of scrub: it found damage, which is still there
inline constexpr int kFsckCorrected = 1;    // of fsck: errors that are repaired now
inline constexpr int kFsckUncorrected = 4;  // of fsck: errors that are still there
inline constexpr int kFsckOperational = 8;  // of fsck: it could not look
inline constexpr int kFsckUsage = 16;       // of fsck: wrong arguments

}  // namespace lsmfs::cli
