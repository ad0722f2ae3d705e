#include "cli/layout/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/btrfs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/messages.h"
#include "cli/sizes.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

// "8:16"
std::optional<dev_t> parse_device(std::string_view text) {
  const auto colon = std::min(text.find(':'), text.size());
  const auto upper = parse_number(text.substr(0, colon), 0xfff);
  const auto lower = parse_number(text.substr(std::min(colon + 1, text.size())), 0xfffff);
  if (!upper || !lower) return std::nullopt;
  return makedev(static_cast<unsigned>(*upper), static_cast<unsigned>(*lower));
}

std::optional<std::uint64_t> parse_sectors(const fs::path& file) { return parse_number(first_line(file), UINT64_MAX / kSector); }

Error odd(const std::string& name) { return make_error(ENODEV, fmt::format("{}: what sysfs says of it is not understood", name)); }

constexpr int kDepthMax = 16;  // of devices that lie on others

// Adds the devices below that of the folder `place` of sysfs.
Result<void> resolve(const fs::path& place, dev_t node, int depth, TracedDevices& found) {
  std::error_code error;
  std::string base = place.filename().string();
  std::replace(base.begin(), base.end(), '!', '/');  // as in cciss/c0d0
  const std::string name = "/dev/" + base;
  const bool partition = fs::exists(place / "partition", error);
  const fs::path disk = partition ? place.parent_path() : place;
  if (depth > kDepthMax) return odd(name);

  bool mapped = false;
  for (const auto& below : fs::directory_iterator(disk / "slaves", error)) {
    const fs::path target = fs::canonical(below.path(), error);
    if (error) return odd(name);
    mapped = true;
    LSMFS_TRY(resolve(target, node, depth + 1, found));
  }
  if (mapped) return {};
  if (!fs::exists(disk / "mq", error)) {
    return make_error(EOPNOTSUPP, fmt::format("{}: the kernel queues no requests for such a device, so there is nothing to trace", name));
  }
  const auto number = parse_device(first_line(disk / "dev"));
  const auto size = parse_sectors(place / "size");
  const auto start = partition ? parse_sectors(place / "start") : std::optional<std::uint64_t>(0);
  if (!number || !size || !start) return odd(name);
  add(found, {TracedDevice{name, {node}, disk_number(major(*number), minor(*number)), ByteOffset{*start * kSector},
                           ByteCount{*size * kSector}}});
  return {};
}

// A btrfs may lie on several devices, and the mount table names one.
Result<TracedDevices> devices_of_btrfs(const std::string& path) {
  const auto failed = [&](std::string_view what) {
    return make_error(errno, fmt::format("{}: {}: {}", path, what, make_error(errno, "btrfs").message()));
  };
  const Fd opened(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!opened) return failed("cannot be opened");
  btrfs_ioctl_fs_info_args facts{};
  if (ioctl(opened.get(), BTRFS_IOC_FS_INFO, &facts) != 0) return failed("its devices cannot be asked for");
  TracedDevices found;
  for (std::uint64_t id = 0; id <= facts.max_id; ++id) {
    btrfs_ioctl_dev_info_args device{};
    device.devid = id;
    if (ioctl(opened.get(), BTRFS_IOC_DEV_INFO, &device) != 0) {
      if (errno == ENODEV) continue;  // there is none of this number
      return failed("its devices cannot be asked for");
    }
    const auto* name = reinterpret_cast<const char*>(device.path);
    LSMFS_ASSIGN(const auto more, devices_of_node(std::string(name, strnlen(name, sizeof device.path))));
    add(found, more);
  }
  return found;
}

Result<MountEntry> mount_of(const std::string& path) {
  struct statx facts {};
  if (statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &facts) != 0) return make_error(errno, explain(path, make_error(errno, path)));
  LSMFS_ASSIGN(const auto table, mounts());
  for (const MountEntry& entry : table) {
    if (entry.id == facts.stx_mnt_id) return entry;
  }
  return make_error(ENODEV, fmt::format("{}: its mount is not in /proc/self/mountinfo", path));
}

}  // namespace

void add(TracedDevices& devices, const TracedDevices& more) {
  for (const TracedDevice& device : more) {
    const auto same = [&](const TracedDevice& other) { return other.name == device.name; };
    const auto known = std::find_if(devices.begin(), devices.end(), same);
    if (known == devices.end()) {
      devices.push_back(device);
    } else {
      known->nodes.insert(known->nodes.end(), device.nodes.begin(), device.nodes.end());
    }
  }
}

Result<std::vector<MountEntry>> mounts() {
  auto table = mount_table();
  if (!table) return make_error(table.error().code, table.error().message());
  return table;
}

std::optional<dev_t> source_of(const MountEntry& mount) {
  struct stat facts {};
  if (!mount.source.starts_with('/') || stat(mount.source.c_str(), &facts) != 0 || !S_ISBLK(facts.st_mode)) return std::nullopt;
  return facts.st_rdev;
}

Result<TracedDevices> devices_of_number(dev_t number, const std::string& sysfs) {
  std::error_code error;
  const std::string link = fmt::format("{}/{}:{}", sysfs, major(number), minor(number));
  const fs::path place = fs::canonical(link, error);
  if (error) return make_error(ENODEV, fmt::format("block device {}:{}: {} is missing", major(number), minor(number), link));
  TracedDevices found;
  LSMFS_TRY(resolve(place, number, 0, found));
  return found;
}

Result<TracedDevices> devices_of_node(const std::string& node) {
  struct stat facts {};
  if (stat(node.c_str(), &facts) != 0) return make_error(errno, explain(node, make_error(errno, node)));
  if (!S_ISBLK(facts.st_mode)) return make_error(ENOTBLK, fmt::format("{}: is not a block device", node));
  return devices_of_number(facts.st_rdev);
}

Result<TracedDevices> devices_of_path(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return make_error(errno, explain(path, make_error(errno, path)));
  if (major(facts.st_dev) != 0) return devices_of_number(facts.st_dev);
  LSMFS_ASSIGN(const MountEntry mount, mount_of(path));
  if (mount.type == "btrfs") return devices_of_btrfs(path);
  if (const auto source = source_of(mount)) return devices_of_number(*source);
  if (mount.is_lsmfs()) {
    return make_error(ENODEV, fmt::format("{}: is in the image {}, which is no block device whose requests could be traced; attach "
                                          "it with losetup and mount the loop device", path, mount.source));
  }
  return make_error(ENODEV, fmt::format("{}: no block device lies behind its file system ({}); name a directory of one on a disk",
                                        path, mount.type));
}

}  // namespace lsmfs::cli
