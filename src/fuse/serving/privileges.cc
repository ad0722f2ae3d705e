#include "fuse/serving/privileges.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <vector>

#include "fuse/transport/message.h"

namespace lsmfs {
namespace {

// Of linux/fuse.h, whose older versions do not have them.
constexpr std::uint32_t kWriteKillSuidgid = 1u << 2;   // WRITE
constexpr std::uint32_t kSetattrKillSuidgid = 1u << 11;  // SETATTR

// The last of the four numbers of a line of /proc/PID/status, which is the one that counts for files.
std::uint32_t number_of(std::string_view status, std::string_view label) {
  const auto at = status.find(label);
  if (at == std::string_view::npos) return Caller::kUnknown;
  const std::string_view line = status.substr(at, status.find('\n', at + 1) - at);
  const std::string_view last = line.substr(line.rfind('\t') + 1);
  std::uint32_t number = Caller::kUnknown;
  std::from_chars(last.data(), last.data() + last.size(), number);
  return number;
}

}  // namespace

Caller caller_of(fuse_req_t req) {
  const fuse_ctx* const said = fuse_req_ctx(req);
  return said->uid != Caller::kUnknown ? Caller{said->uid, said->gid} : process_of(req);
}

namespace {

// What /proc says of the caller's process; "": nothing.
std::string status_of(fuse_req_t req) {
  const Fd file(open(fmt::format("/proc/{}/status", fuse_req_ctx(req)->pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return "";
  char text[4096];
  const ssize_t size = read(file.get(), text, sizeof text);
  return std::string(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
}

}  // namespace

Caller process_of(fuse_req_t req) {
  const std::string status = status_of(req);
  if (status.empty()) return {};
  return {number_of(status, "\nUid:\t"), number_of(status, "\nGid:\t")};
}

std::uint64_t capabilities_of(fuse_req_t req) {
  constexpr std::string_view kName = "\nCapEff:\t";
  const std::string status = status_of(req);
  const std::size_t at = status.find(kName);
  std::uint64_t capabilities = 0;
  if (at != status.npos) std::from_chars(status.data() + at + kName.size(), status.data() + status.size(), capabilities, 16);
  return capabilities;
}

bool PrivilegeWatch::drops(const fuse_in_header& request) {
  if (request.opcode == FUSE_WRITE) return body_of<fuse_write_in>(request).write_flags & kWriteKillSuidgid;
  if (request.opcode == FUSE_REMOVEXATTR) {
    const char* name = reinterpret_cast<const char*>(&request) + sizeof request;
    without_capability_ = std::strcmp(name, "security.capability") == 0 ? request.nodeid : 0;
    return false;
  }
  if (request.opcode != FUSE_SETATTR) return false;
  const std::uint32_t valid = body_of<fuse_setattr_in>(request).valid;
  // The kernel's own times, with the writeback cache, may come in between.
  if ((valid & ~FATTR_FH) == (FATTR_MTIME | FATTR_CTIME)) return false;
  const bool capability_gone = without_capability_.exchange(0) == request.nodeid;
  // Every change of hands, also chown(-1, -1), of which nothing is left but the request. Such a request
  // also follows when the kernel has removed a capability before a write; that says by itself what it drops.
  // With the writeback cache, in which the kernel keeps times, that of the change comes with it.
  if ((valid & ~(FATTR_CTIME | FATTR_FH)) == 0) return !capability_gone;
  return (valid & (FATTR_UID | FATTR_GID | kSetattrKillSuidgid)) != 0;
}

bool root_or_in_group(fuse_req_t req, gid_t gid) {
  const Caller caller = caller_of(req);
  if (caller.is_root() || caller.gid == gid) return true;
  std::vector<gid_t> groups(NGROUPS_MAX);
  const int count = fuse_req_getgroups(req, NGROUPS_MAX, groups.data());
  groups.resize(static_cast<std::size_t>(std::clamp(count, 0, NGROUPS_MAX)));
  return std::find(groups.begin(), groups.end(), gid) != groups.end();
}

std::uint32_t without_privileges(const Attr& attr, fuse_req_t req) {
  std::uint32_t mode = attr.mode;
  if (S_ISDIR(mode)) return mode;
  mode &= ~static_cast<std::uint32_t>(S_ISUID);
  if ((mode & S_ISGID) && ((mode & S_IXGRP) || !root_or_in_group(req, attr.gid))) {
    mode &= ~static_cast<std::uint32_t>(S_ISGID);
  }
  return mode;
}

}  // namespace lsmfs
