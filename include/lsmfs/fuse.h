// fuse: one kernel request in, one tree call, one reply out.
//
// It owns the mount point, the request loop and the page-cache policy. What it is not: it knows no
// keys, no store and no device beyond the name shown in the mount table. No libfuse type leaves it.
//
// The loop: one thread reads requests, or one for each processor where they come through io_uring, and answers at once
// what is in memory (Wait::no). What would have to wait goes to a pool of workers that run the same call with Wait::yes.
#pragma once

#include <array>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/control.h"
#include "lsmfs/tree.h"

namespace lsmfs {

struct PreparedMount;  // only prepare_mount() and Mount::start() look inside

// What is left to us, or insisted on: then not to be able to is an error.
enum class Choice : std::uint8_t { automatic, on, off };

// Labels of SELinux among kernel_options, which the kernel goes by without the file system's doing. They may be in double quotes, with commas.
inline constexpr std::array<std::string_view, 4> kLabelOptions{"context=", "fscontext=", "defcontext=", "rootcontext="};

struct MountOptions {
  std::string source;      // shown in the mount table: the device's or image's absolute path
  std::string mount_point; // absolute path of a directory
  bool block_device = false;  // mount as fuseblk, so that umount(8) waits until all is on disk
  bool read_only = false;
  // By root, after prepare_mount(): what alone is to be seen at the mount point, by its path below the root; "": all.
  std::string shows;
  bool acl = true;         // POSIX access control lists count
  bool xattr = true;       // there are extended attributes; acl wants them
  bool user_rm = false;    // the owner of a directory may remove it with all below it, whosever that is
  bool durable_names = false;  // what makes, removes or renames an entry returns when that is durable
  bool writeback = false;  // let the kernel gather writes; what programs wrote reaches the tree later
  // nosuid, nodev, noexec, allow_other, ...: passed on as they are. When root mounts, suid, dev and
  // allow_other are the default, as for other file systems.
  std::vector<std::string> kernel_options;
  Choice latency = Choice::automatic;  // hold CPUs out of deep idle while requests are in flight
  // Requests come through a ring for each processor, and not through /dev/fuse. on: if the kernel has that switched off, and this is
  // root, it is switched on for the whole machine, and `notice` hears of it.
  Choice io_uring = Choice::automatic;
  unsigned workers = 8;
  std::chrono::milliseconds patience{30'000};  // a request that waits for longer is told of to `notice`
  std::function<void(std::string_view)> notice = [](std::string_view) {};
  // After SIGHUP: opens the log again, which the process may do that prepare_mount() begins, and is called there. Its result goes
  // to the other. None: SIGHUP stops, as other signals do.
  std::function<Result<Fd>()> open_log;
  std::function<void(Result<Fd>)> log_opened = [](const Result<Fd>&) {};
  // Called in that process, too, when the one that serves the mount has ended without taking it away: it was killed, or worse.
  std::function<void()> died = [] {};
  std::shared_ptr<PreparedMount> prepared;  // by prepare_mount()
  Clock* clock = &system_clock();  // must outlive the mount
};

// Does now what of Mount::start() and serve() takes privileges or opens files to write, or has a process of its own do it
// later; so this one may give its privileges up. To be called once the other options are set, which must stay as they are.
// Must hold: this process has no other thread. Errors as Mount::start.
Result<void> prepare_mount(MountOptions& options);

// What ioctls on a mount ask of those who opened the file system, beyond its tree. Called from any
// thread; may wait for the device.
struct Administration {
  std::function<std::string()> info_json = [] { return "{}"; };  // what query_mount() gives
  std::function<LayerStats()> stats = [] { return LayerStats{}; };
  std::function<std::string()> label = [] { return ""; };
  // EINVAL: too long, or not allowed.
  std::function<Result<void>(std::string_view)> set_label = [](auto) { return make_error(EROFS, "label"); };
  // As Volume::grow(); gives the size that it has then.
  std::function<Result<ByteCount>(std::optional<ByteCount>)> grow = [](auto) { return make_error(EROFS, "grow"); };
};

class Mount {
 public:
  // Mounts and answers INIT. Errors: ENOENT or ENOTDIR (mount point), EBUSY (already in use),
  // EPERM (not allowed), ENODEV (no /dev/fuse: load the fuse module).
  static Result<std::unique_ptr<Mount>> start(Tree& tree, const MountOptions& options,
                                              Administration administration);
  virtual ~Mount() = default;
  // Serves until unmounted or told to stop by SIGINT, SIGTERM, SIGXCPU or SIGHUP (then it unmounts itself).
  // `on_ready` runs once the mount answers. `on_destroy` runs when the kernel has sent its last
  // request; umount(8) of a fuseblk mount returns only after it. Errors before `on_ready`: MountOptions::shows cannot be shown, as ENOENT,
  // or it was told to stop before (EINTR).
  virtual Result<void> serve(std::function<void()> on_ready, std::function<void()> on_destroy) = 0;
};

// One line of a process's mount table.
struct MountEntry {
  std::uint64_t id = 0;  // stx_mnt_id of statx(2)
  std::uint64_t parent = 0;  // that of the mount on which it is mounted
  std::string device;  // "major:minor" of what stat(2) says in it
  std::string root;    // what of the file system is mounted there, by its path in it
  std::string mount_point;
  std::string type;    // "fuse.lsmfs" and "fuseblk.lsmfs" are ours
  std::string source;
  std::string options;  // of the file system, with commas; who mounted it is its user_id
  bool is_lsmfs() const { return type == "fuse.lsmfs" || type == "fuseblk.lsmfs"; }
  // Whether both show one file system of ours. Its number alone does not say so: the kernel gives that to the next mount as
  // soon as it has been unmounted, which is before its daemon has ended.
  bool shows_same(const MountEntry& other) const {
    return is_lsmfs() && type == other.type && source == other.source && device == other.device;
  }
  // At one place, too.
  bool same_as(const MountEntry& other) const { return shows_same(other) && mount_point == other.mount_point; }
};
// In the order of mounting: of several on one mount point the last is the visible one. Of another process: as its mount
// namespace shows them.
Result<std::vector<MountEntry>> mount_table(std::optional<pid_t> process = {});

// The visible one at `mount_point`, as the mount table writes it; nullopt: nothing is mounted there.
Result<std::optional<MountEntry>> mounted_at(const std::string& mount_point);

// Unmounts what is mounted last on `mount_point` (as it is written in the mount table), with
// fusermount3 when not root. Errors: EBUSY (in use), EPERM, EINVAL (nothing is mounted there).
Result<void> unmount(const std::string& mount_point, bool lazy);

// Gives the mount that is visible at `mount_point` other flags: those of `read_only` and `kernel_options`, where what
// is not named is as in a new mount; only how access times are kept stays as it is unless it is named. It tells the
// daemon nothing. Errors: EBUSY (read_only, and files are open to write), EACCES (not read_only, and the device is), EPERM.
Result<void> remount(const std::string& mount_point, bool read_only, const std::vector<std::string>& kernel_options);

// The directory at the path `part` below the root of the mount at `whole`, as with O_PATH. Whatever the daemon answers, it is in that mount.
// Errors: ENOENT, ENOTDIR, ELOOP (a symbolic link), EXDEV (another mount is on the way, or there), ENOSYS (Linux before 5.6).
Result<Fd> open_part(const std::string& whole, const std::string& part);

// Mounts that directory at `mount_point` as well, read-only and without what is mounted below it. Of `kernel_options` those
// count that say what may not be done with files, as nosuid. For root. Errors: ENOENT, EPERM, ENOSYS (Linux before 5.12), and the like.
Result<void> mount_part(const Fd& part, const std::string& mount_point, const std::vector<std::string>& kernel_options);

std::vector<Library> fuse_libraries();

}  // namespace lsmfs
