#include "fuse/mounting/kernel_mount.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include "fuse/mounting/fusermount.h"

namespace lsmfs {
namespace {

struct Flag {
  std::string_view name;
  unsigned long set, clear;
};

// Older headers lack it.
constexpr unsigned long kNoSymlinks = 256;  // MS_NOSYMFOLLOW

constexpr std::array kFlags{
    Flag{"ro", MS_RDONLY, 0},
    Flag{"rw", 0, MS_RDONLY},
    Flag{"nosuid", MS_NOSUID, 0},
    Flag{"suid", 0, MS_NOSUID},
    Flag{"nodev", MS_NODEV, 0},
    Flag{"dev", 0, MS_NODEV},
    Flag{"noexec", MS_NOEXEC, 0},
    Flag{"exec", 0, MS_NOEXEC},
    Flag{"sync", MS_SYNCHRONOUS, 0},
    Flag{"async", 0, MS_SYNCHRONOUS},
    Flag{"dirsync", MS_DIRSYNC, 0},
    Flag{"nosymfollow", kNoSymlinks, 0},
    Flag{"symfollow", 0, kNoSymlinks},
    Flag{"noatime", MS_NOATIME, 0},
    Flag{"relatime", MS_RELATIME, 0},
    Flag{"strictatime", MS_STRICTATIME, 0},
    Flag{"nodiratime", MS_NODIRATIME, 0},
    Flag{"lazytime", MS_LAZYTIME, 0},
    Flag{"nolazytime", 0, MS_LAZYTIME},
};

// fusermount3 knows few of them, and takes what it does not know for an option of the FUSE driver, which
// refuses it. What is left out here is the daemon's own doing, or the default.
constexpr std::array<std::string_view, 6> kNotForUsers{"relatime", "strictatime", "nodiratime",
                                                       "lazytime", "nolazytime",  "symfollow"};

bool is_label(std::string_view option) {
  return std::ranges::any_of(kLabelOptions, [&](std::string_view label) { return option.starts_with(label); });
}

Result<Fd> mount_as_root(const MountOptions& options) {
  // Looked up once, and before anything is changed, so that an error is about it.
  const Fd place(open(options.mount_point.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  struct stat facts {};
  if (!place || fstat(place.get(), &facts) != 0) return make_error(errno, options.mount_point);
  Fd fd(open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (!fd) {
    if (errno == EACCES || errno == EPERM) return make_error(EPERM, "/dev/fuse");
    return make_error(ENODEV, "/dev/fuse");
  }
  unsigned long flags = 0;
  if (options.read_only) flags |= MS_RDONLY;
  for (const auto& option : options.kernel_options) apply_flag(option, flags);
  const std::string data = mount_data(options, fd.get(), facts.st_mode & S_IFMT, kernel_has_selinux());
  const char* type = options.block_device ? "fuseblk.lsmfs" : "fuse.lsmfs";
  const std::string target = fmt::format("/proc/self/fd/{}", place.get());
  if (mount(options.source.c_str(), target.c_str(), type, flags, data.c_str()) != 0) {
    const int code = errno == EACCES ? EPERM : errno;
    return make_error(code, "mount " + options.mount_point);
  }
  return fd;
}

// Commas separate fusermount3's options; it takes a backslash before one that does not.
std::string escape_commas(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == ',' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  return out;
}

Result<Fd> mount_as_user(const MountOptions& options) {
  // fusermount3 says the same less clearly.
  struct stat facts {};
  if (stat(options.mount_point.c_str(), &facts) != 0) return make_error(errno, options.mount_point);
  if (!S_ISDIR(facts.st_mode)) return make_error(ENOTDIR, options.mount_point);
  if (access("/dev/fuse", F_OK) != 0) return make_error(ENODEV, "/dev/fuse");
  std::string list = fmt::format("fsname={},subtype=lsmfs,default_permissions", escape_commas(options.source));
  if (options.read_only) list += ",ro";
  for (const auto& option : options.kernel_options) {
    const bool for_root = std::find(kNotForUsers.begin(), kNotForUsers.end(), option) != kNotForUsers.end();
    if (!for_root && (!is_label(option) || kernel_has_selinux())) list += "," + escape_commas(option);
  }
  return fusermount_mount(options.mount_point, list);
}

}  // namespace

bool apply_flag(std::string_view option, unsigned long& flags) {
  const auto* flag = std::find_if(kFlags.begin(), kFlags.end(), [&](const Flag& f) { return f.name == option; });
  if (flag == kFlags.end()) return false;
  flags = (flags & ~flag->clear) | flag->set;
  return true;
}

std::string label_options(const std::vector<std::string>& kernel_options, bool selinux) {
  std::string labels;
  for (const auto& option : kernel_options) {
    if (selinux && is_label(option)) labels += "," + option;
  }
  return labels;
}

bool kernel_has_selinux() {
  std::ifstream known("/proc/filesystems");
  for (std::string line; std::getline(known, line);) {
    if (line.ends_with("\tselinuxfs")) return true;
  }
  return false;
}

std::string mount_data(const MountOptions& options, int fd, unsigned root_mode, bool selinux) {
  // Others are let in only where the kernel itself checks who may do what: nothing here does.
  std::string data = fmt::format("fd={},rootmode={:o},user_id={},group_id={},default_permissions,allow_other", fd, root_mode, getuid(), getgid());
  if (options.block_device) data += ",blksize=4096";
  for (const auto& option : options.kernel_options) {
    unsigned long flags = 0;
    if (!apply_flag(option, flags) && option != "allow_other" && !is_label(option)) data += "," + option;
  }
  return data + label_options(options.kernel_options, selinux);
}

Result<Fd> kernel_mount(const MountOptions& options) {
  return geteuid() == 0 ? mount_as_root(options) : mount_as_user(options);
}

Result<void> unmount(const std::string& mount_point, bool lazy) {
  if (geteuid() != 0) return fusermount_unmount(mount_point, lazy);
  if (umount2(mount_point.c_str(), UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0) return {};
  return make_error(errno, mount_point);
}

bool still_mounted(const MountEntry& entry) {
  const auto now = mounted_at(entry.mount_point);
  return now && *now && (*now)->same_as(entry);
}

void set_read_ahead(const MountEntry& entry, unsigned kib) {
  const std::string value = std::to_string(kib);
  for (const char* suffix : {"", "-fuseblk"}) {
    const std::string path = fmt::format("/sys/class/bdi/{}{}/read_ahead_kb", entry.device, suffix);
    // A fuseblk mount has the device's number, and the entry without a suffix is the device's own.
    if ((entry.type == "fuseblk.lsmfs") != (*suffix != 0)) continue;
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) continue;
    if (write(fd, value.data(), value.size()) < 0) {
      // stays as it is
    }
    close(fd);
  }
}

}  // namespace lsmfs
