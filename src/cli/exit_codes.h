// What the commands return to the shell: as mount(8) and umount(8) say; mkfs, info, clone, import, snapshot, snapshots, prune, rollback, send, rm, changes, trim, scrub, stats, top and layout know 0 and 1, scrub also 4, receive 0 to 6;
// diff as diff(1), and fsck as fsck(8) says.
#pragma once

namespace lsmfs::cli {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 1;          // wrong arguments, or no permission
inline constexpr int kSystemError = 2;    // no memory, no fork, no /dev/fuse
inline constexpr int kMountFailure = 32;  // it could not be mounted or unmounted
inline constexpr int kFailure = 1;        // of mkfs, info, clone, import, snapshot, snapshots, prune, rollback, send, receive, rm, changes, trim, scrub, stats, top and layout
inline constexpr int kDiffers = 1;       // of diff: something does
inline constexpr int kDiffTrouble = 2;   // of diff: it could not look, also for wrong arguments
inline constexpr int kStreamDamaged = 2;   // of receive, about the stream itself
inline constexpr int kStreamForeign = 3;   // likewise: it is none of lsmfs send
inline constexpr int kStreamNewer = 4;     // likewise: of a version that is not known
inline constexpr int kStreamCut = 5;       // likewise: it ends too early
inline constexpr int kStreamBase = 6;      // of receive: the snapshot that the stream goes on from is not here
inline constexpr int kScrubDamage = 4;   // of scrub: it found damage, which is still there
inline constexpr int kFsckCorrected = 1;    // of fsck: errors that are repaired now
inline constexpr int kFsckUncorrected = 4;  // of fsck: errors that are still there
inline constexpr int kFsckOperational = 8;  // of fsck: it could not look
inline constexpr int kFsckUsage = 16;       // of fsck: wrong arguments

}  // namespace lsmfs::cli
