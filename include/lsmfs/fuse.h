// fuse: one kernel request in, one tree call, one reply out.
//
// It owns the mount point, the request loop and the page-cache policy. What it is not: it knows no
// keys, no store and no device beyond the name shown in the mount table. No libfuse type leaves it.
//
// The loop: one thread reads requests and answers at once what is in memory (Wait::no). What would
// have to wait goes to a pool of workers that run the same call with Wait::yes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs {

enum class IdleLatency : std::uint8_t { automatic, on, off };

struct MountOptions {
  std::string source;      // shown in the mount table: the device's or image's absolute path
  std::string mount_point; // absolute path of a directory
  bool block_device = false;  // mount as fuseblk, so that umount(8) waits until all is on disk
  bool read_only = false;
  std::vector<std::string> kernel_options;  // nosuid, nodev, noexec, ...: passed on as they are
  IdleLatency latency = IdleLatency::automatic;  // hold CPUs out of deep idle while requests are in flight
  unsigned workers = 8;
  std::function<void(std::string_view)> notice = [](std::string_view) {};
};

class Mount {
 public:
  // Mounts and answers INIT. Errors: ENOENT or ENOTDIR (mount point), EBUSY (already in use),
  // EPERM (not allowed), ENODEV (no /dev/fuse: load the fuse module).
  static Result<std::unique_ptr<Mount>> start(Tree& tree, const MountOptions& options,
                                              std::function<std::string()> info_json);
  virtual ~Mount() = default;
  // Serves until unmounted or told to stop by SIGINT, SIGTERM or SIGHUP (then it unmounts itself).
  // `on_ready` runs once the mount answers. `on_destroy` runs when the kernel has sent its last
  // request; umount(8) of a fuseblk mount returns only after it.
  virtual Result<void> serve(std::function<void()> on_ready, std::function<void()> on_destroy) = 0;
};

// Asks the daemon that serves `path` (any file or directory in a mount) for its facts, as JSON.
// Errors: ENOTTY (not an lsmfs), errors of open(2).
Result<std::string> query_mount(const std::string& path);

}  // namespace lsmfs
