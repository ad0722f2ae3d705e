// The side of who asks.
#include "lsmfs/control.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "fuse/control/stats_codec.h"

namespace lsmfs {
namespace {

// ENOTTY for devices, FIFOs and sockets, whose requests of the same number would be others.
Result<Fd> open_on_mount(const std::string& path) {
  // O_NONBLOCK, so that a FIFO does not hold us up.
  Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat facts {};
  if (!fd || fstat(fd.get(), &facts) != 0) return make_error(errno, path);
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return make_error(ENOTTY, path);
  return fd;
}

// `data`: what the request takes or gives, or nothing.
Result<void> mount_ioctl(const Fd& fd, const std::string& path, unsigned long request, void* data) {
  if (::ioctl(fd.get(), request, data) != 0) return make_error(errno, path);
  return {};
}

Result<void> mount_ioctl(const std::string& path, unsigned long request, void* data = nullptr) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  return mount_ioctl(fd, path, request, data);
}

// Whether the kernel itself lets nobody write there.
bool is_read_only(const Fd& fd) {
  struct statvfs facts {};
  return fstatvfs(fd.get(), &facts) == 0 && (facts.f_flag & ST_RDONLY) != 0;
}

}  // namespace

Result<std::string> query_mount(const std::string& path) {
  std::string json(kFactsMax + 1, '\0');
  const auto asked = mount_ioctl(path, kFactsIoctl, json.data());
  json.resize(json.find('\0'));
  // What other file systems say of a request that they do not know, or make of it.
  int code = asked ? 0 : asked.error().code;
  if (code == EINVAL || code == EOPNOTSUPP || code == ENOSYS || (code == 0 && !json.starts_with('{'))) code = ENOTTY;
  if (code != 0) return make_error(code, path);
  return json;
}

Result<void> reconfigure_mount(const std::string& mount_point, const MountSettings& settings) {
  ReconfigureRequest request = to_request(settings);
  return mount_ioctl(mount_point, kReconfigureIoctl, &request);
}

Result<void> drop_caches_of_mount(const std::string& path) { return mount_ioctl(path, kDropCachesIoctl); }

Result<void> scrub_mount(const std::string& path, const std::function<bool(const ScrubStep&)>& go_on) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  for (ScrubMessage message; !position_of(message).done();) {
    LSMFS_TRY(mount_ioctl(fd, path, kScrubIoctl, &message));
    if (!go_on(step_of(message))) return make_error(EINTR, path);
  }
  return {};
}

Result<MountStats> stats_of_mount(const std::string& path) {
  LSMFS_ASSIGN(const Fd fd, open_on_mount(path));
  MountStats stats;
  std::uint32_t part = 0;
  do {
    StatsMessage message;
    message.version = kStatsVersion;
    message.part = part;
    LSMFS_TRY(mount_ioctl(fd, path, kStatsIoctl, &message));
    LSMFS_TRY(take_part(message, part, stats));
    part = message.part;
  } while (part != 0);
  return stats;
}

Result<ByteCount> trim_mount(const std::string& path) {
  fstrim_range range{0, UINT64_MAX, 0};
  LSMFS_TRY(mount_ioctl(path, FITRIM, &range));
  return ByteCount{range.len};
}

Result<void> label_mount(const std::string& path, const std::string& label) {
  char text[FSLABEL_MAX] = {};
  if (label.size() >= sizeof text) return make_error(EINVAL, path);
  label.copy(text, label.size());
  return mount_ioctl(path, FS_IOC_SETFSLABEL, text);
}

Result<void> remove_tree_of_mount(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return make_error(errno, path);
  return mount_ioctl(fd, path, kRemoveTreeIoctl, nullptr);
}

Result<void> clone_in_mount(const std::string& source, const std::string& parent, const std::string& name) {
  const Fd from(open(source.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat of_source {}, of_parent {};
  if (!from || fstat(from.get(), &of_source) != 0) return make_error(errno, source);
  const Fd to(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!to || fstat(to.get(), &of_parent) != 0) return make_error(errno, parent);
  if (of_source.st_dev != of_parent.st_dev) return make_error(EXDEV, parent);
  CloneRequest request{.parent = of_parent.st_ino};
  if (name.size() >= sizeof request.name) return make_error(ENAMETOOLONG, name);
  name.copy(request.name, name.size());
  if (syncfs(from.get()) != 0) return make_error(errno, source);
  LSMFS_TRY(mount_ioctl(from, source, kCloneIoctl, &request));
  const int failed = mkdirat(to.get(), name.c_str(), 0700) != 0 ? errno : 0;
  ClonedMessage cloned;
  LSMFS_TRY(mount_ioctl(from, source, kClonedIoctl, &cloned));
  if (cloned.outcome == ClonedMessage::kDenied) return make_error(EPERM, source);
  // No ordinary directory is made among snapshots, so there a wish that is forgotten is EROFS.
  const bool forgotten = failed == EROFS && cloned.outcome == ClonedMessage::kOrdinary && of_parent.st_ino == kSnapshotsIno.v && !is_read_only(to);
  if (failed != 0 && !forgotten) return make_error(failed, parent + "/" + name);
  if (cloned.outcome == ClonedMessage::kCopy) return {};
  if (!forgotten) (void)unlinkat(to.get(), name.c_str(), AT_REMOVEDIR);
  return make_error(EAGAIN, source);
}

Result<SnapshotInfo> snapshot_info_of(const std::string& path) {
  SnapshotMessage message;
  LSMFS_TRY(mount_ioctl(path, kSnapshotIoctl, &message));
  return snapshot_of(message);
}

Result<ByteCount> grow_mount(const std::string& path, std::optional<ByteCount> size) {
  GrowMessage message{size ? size->v : 0};
  LSMFS_TRY(mount_ioctl(path, kGrowIoctl, &message));
  return ByteCount{message.size};
}

}  // namespace lsmfs
