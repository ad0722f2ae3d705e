// Changes of a mount that is there: what the kernel keeps of it, and what its daemon does.
#include <sys/mount.h>

#include "fuse/kernel_mount.h"
#include "fuse/mount_ioctl.h"
#include "fuse/reconfigure_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

ReconfigureRequest to_request(const MountSettings& settings) {
  const TreeSettings& tree = settings.tree;
  ReconfigureRequest request;
  if (tree.read_only) request.read_only = *tree.read_only;
  if (tree.atime) request.atime = static_cast<std::int32_t>(*tree.atime);
  if (tree.directory_atime) request.directory_atime = *tree.directory_atime;
  if (tree.sync_interval_ms) request.sync_interval_ms = static_cast<std::int32_t>(*tree.sync_interval_ms);
  if (settings.durable_names) request.durable_names = *settings.durable_names;
  return request;
}

std::optional<MountSettings> to_settings(const ReconfigureRequest& request) {
  constexpr std::int32_t kUnchanged = ReconfigureRequest::kUnchanged;
  const auto within = [](std::int32_t value, std::int32_t most) { return value >= kUnchanged && value <= most; };
  if (!within(request.read_only, 1) || !within(request.directory_atime, 1) || !within(request.durable_names, 1) ||
      !within(request.sync_interval_ms, INT32_MAX) || !within(request.atime, static_cast<std::int32_t>(AtimePolicy::strictatime))) {
    return std::nullopt;
  }
  MountSettings settings;
  TreeSettings& tree = settings.tree;
  if (request.read_only != kUnchanged) tree.read_only = request.read_only == 1;
  if (request.atime != kUnchanged) tree.atime = static_cast<AtimePolicy>(request.atime);
  if (request.directory_atime != kUnchanged) tree.directory_atime = request.directory_atime == 1;
  if (request.sync_interval_ms != kUnchanged) tree.sync_interval_ms = static_cast<std::uint32_t>(request.sync_interval_ms);
  if (request.durable_names != kUnchanged) settings.durable_names = request.durable_names == 1;
  return settings;
}

Result<void> reconfigure_mount(const std::string& mount_point, const MountSettings& settings) {
  ReconfigureRequest request = to_request(settings);
  return mount_ioctl(mount_point, kReconfigureIoctl, &request);
}

Result<void> remount(const std::string& mount_point, bool read_only, const std::vector<std::string>& kernel_options) {
  unsigned long flags = 0;
  if (read_only) flags |= MS_RDONLY;
  for (const auto& option : kernel_options) apply_flag(option, flags);
  if (mount(nullptr, mount_point.c_str(), nullptr, MS_REMOUNT | flags, nullptr) == 0) return {};
  return make_error(errno, mount_point);
}

}  // namespace lsmfs
