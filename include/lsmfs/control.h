// control: what a program asks of the daemon of a mount, and how.
//
// Each is an ioctl of any file or directory of the mount: who may open that may ask, and the daemon says who may have it. All are defined
// in src/fuse/control/requests.h, and answered by src/fuse/serving/ioctls.cc. What it is not: it mounts and unmounts nothing
// (lsmfs/fuse.h).
//
// `path`: any file or directory of the mount. Errors of all: ENOTTY (not an lsmfs, or one of another version), those of open(2).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// What can change while it is mounted; nullopt: stays.
struct MountSettings {
  TreeSettings tree;
  std::optional<bool> durable_names;
};

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

// Gives it so many bytes of its device, or all; gives how many it has then. Errors: EPERM (only root may, and who mounted it), and those of
// Volume::grow().
Result<ByteCount> grow_mount(const std::string& path, std::optional<ByteCount> size);

}  // namespace lsmfs
