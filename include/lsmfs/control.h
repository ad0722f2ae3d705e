// control: what a program asks of the daemon of a mount, and how.
//
// Each is an ioctl of any file or directory of the mount: who may open that may ask, and the daemon says who may have it. All are defined
// in src/fuse/control/requests.h, and answered by src/fuse/serving/ioctls.cc. What it is not: it mounts and unmounts nothing
// (lsmfs/fuse.h).
//
// `path`: any file or directory of the mount. Errors of all: ENOTTY (not an lsmfs, or one of another version), those of open(2).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// What can change while it is mounted; nullopt: stays.
struct MountSettings {
  TreeSettings tree;
  std::optional<bool> durable_names;
};

// ---- numbers. All but those that say "now" only grow while it is mounted.

struct KindCount {
  std::uint64_t count = 0;   // that were answered
  HistogramCounts took;      // from when the daemon received a request, or handed it to a worker, until it had answered. Of many that
                             // come at once each sixteenth is timed, and stands for as many: there may be some more or less than `count`
  std::uint64_t waited = 0;  // of `count`, those that were handed to a worker: for the device, a commit, or by their kind
  std::uint64_t bytes = 0;   // of data that came with them
};
struct ProgramCount {
  std::uint32_t id = 0;  // of a thread, in the daemon's namespace; 0: none there
  std::uint64_t requests = 0;
};
struct RequestStats {
  static constexpr std::size_t kKinds = 64, kProgramsMax = 64;
  std::array<KindCount, kKinds> kinds;  // by the kernel's number of it; the last is of all beyond
  std::vector<ProgramCount> programs;   // some of those that came last, the busiest first. A number that was away begins at 0
  std::uint64_t other_programs = 0;     // requests of all others
};
// "READ"; "": the kernel has no such kind, or a newer one has.
std::string_view request_kind(std::size_t kind);

// What the layers below count.
struct LayerStats {
  DeviceStats device;
  VolumeUsage volume;
  StoreActivity store;
  TreeActivity tree;
};
struct MountStats {
  std::uint64_t mounted_ns = 0;  // for how long
  RequestStats requests;
  LayerStats layers;
};
// What was counted between the two; of what is as of now that of `now`. Of a program that `before` does not have, all.
MountStats since(const MountStats& now, const MountStats& before);

// Asks for its numbers. Who made requests is told only to root and to who mounted it. Errors: EPROTO (its numbers are of another version,
// which the context names).
Result<MountStats> stats_of_mount(const std::string& path);

// Asks for its facts, as JSON.
Result<std::string> query_mount(const std::string& path);

// Changes what is mounted. Errors: those of Tree::reconfigure(), EPERM (not root).
Result<void> reconfigure_mount(const std::string& path, const MountSettings& settings);

// Has it write what it has and forget what it has cached, as after mounting; the kernel's caches stay. Errors: EPERM (only root may, and
// who mounted it).
Result<void> drop_caches_of_mount(const std::string& path);

// Has it read all that is on its device and verify it, as Tree::scrub(): a table or less at a time, after which `go_on` hears of that
// step, may wait, and says whether to go on. The mount is in use until this returns. Errors: EPERM (only root may, and who mounted it),
// EINTR (stopped).
Result<void> scrub_mount(const std::string& path, const std::function<bool(const ScrubStep&)>& go_on);

// Discards the free space, as fstrim(8) does, of any file system; gives the bytes discarded. Errors: EPERM (only root may, and who mounted
// it), EOPNOTSUPP (the device cannot), EROFS.
Result<ByteCount> trim_mount(const std::string& path);

// Gives it another label. Errors: EPERM (only root may, and who mounted it), EINVAL (check_label()), EROFS.
Result<void> label_mount(const std::string& path, const std::string& label);

// Removes the directory at `path` with all that lies below it, as Tree::remove_tree(). What is mounted below it is unmounted by the kernel:
// whoever minds looks before. Errors: those, ENOTDIR also for a symbolic link, EROFS, EACCES (the caller is neither root nor who mounted it,
// and the mount option user_rm is not set, or he does not own the directory or may not take it away from where it is).
Result<void> remove_tree_of_mount(const std::string& path);

// Makes `name` in the directory `parent` a copy of the directory `source` with all that lies below it, as Tree::clone(), after the kernel was
// asked for what programs have written and it still keeps. The context of an error that is about the place is `parent`/`name`: those of mkdir(2), and those of the
// tree (EINVAL: the place is in the source). Of others it is the path they are about: those of open(2), ENOTDIR also where `source` is a
// symbolic link, ENOTTY, EXDEV, ENAMETOOLONG, EPERM (the caller is neither root nor who mounted it, nor owns the source), ESRCH (the daemon
// does not see the caller, who is in another process namespace), EAGAIN (the daemon has forgotten the wish: a minute has gone by, or the user
// has asked for much else). Where `parent` is the directory of snapshots, it makes a snapshot.
Result<void> clone_in_mount(const std::string& source, const std::string& parent, const std::string& name);

// What is known of the snapshot at `path`. Errors: EINVAL (it is no snapshot, or lies in one), EMSGSIZE (the path of its source is longer than 16,352 bytes).
Result<SnapshotInfo> snapshot_info_of(const std::string& path);

// Gives it so many bytes of its device, or all; gives how many it has then. Errors: EPERM (only root may, and who mounted it), and those of
// Volume::grow().
Result<ByteCount> grow_mount(const std::string& path, std::optional<ByteCount> size);

}  // namespace lsmfs
