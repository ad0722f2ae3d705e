#include "fuse/privileges.h"

#include <limits.h>
#include <linux/fuse.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "fuse/context.h"
#include "fuse/message.h"

namespace lsmfs {
namespace {

// Of linux/fuse.h, whose older versions do not have them.
constexpr std::uint32_t kHandleKillprivV2 = 1u << 28;  // INIT
constexpr std::uint32_t kWriteKillSuidgid = 1u << 2;   // WRITE
constexpr std::uint32_t kSetattrKillSuidgid = 1u << 11;  // SETATTR

}  // namespace

bool PrivilegeWatch::drops(const fuse_in_header& request) {
  if (request.opcode == FUSE_WRITE) return body_of<fuse_write_in>(request).write_flags & kWriteKillSuidgid;
  if (request.opcode == FUSE_REMOVEXATTR) {
    const char* name = reinterpret_cast<const char*>(&request) + sizeof request;
    without_capability_ = std::strcmp(name, "security.capability") == 0 ? request.nodeid : 0;
    return false;
  }
  if (request.opcode != FUSE_SETATTR) return false;
  const bool capability_gone = std::exchange(without_capability_, 0) == request.nodeid;
  const std::uint32_t valid = body_of<fuse_setattr_in>(request).valid;
  // Every change of hands, also chown(-1, -1), of which nothing is left but the request. Such a request
  // also follows when the kernel has removed a capability before a write; that says by itself what it drops.
  if (valid == 0) return !capability_gone;
  return (valid & (FATTR_UID | FATTR_GID | kSetattrKillSuidgid)) != 0;
}

bool root_or_in_group(fuse_req_t req, gid_t gid) {
  const fuse_ctx* caller = fuse_req_ctx(req);
  if (caller->uid == 0 || caller->gid == gid) return true;
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

#ifdef FUSE_CAP_HANDLE_KILLPRIV_V2

// init() asks libfuse for it.
Result<void> accept_killpriv(fuse_session*, int) { return {}; }
void KillprivOffer::note(const fuse_in_header&) {}

#else

namespace {

// Replies go through here. Must hold: the session's user data is a Context.
ssize_t reply(int fd, iovec* parts, int count, void* user_data) {
  KillprivOffer& offer = static_cast<Context*>(user_data)->killpriv;
  if (!offer.open || count != 2 || parts[1].iov_len < offsetof(fuse_init_out, flags) + sizeof(std::uint32_t)) {
    return writev(fd, parts, count);
  }
  offer.open = false;
  fuse_init_out out{};
  const std::size_t size = std::min(parts[1].iov_len, sizeof out);
  std::memcpy(&out, parts[1].iov_base, size);
  out.flags |= kHandleKillprivV2;
  iovec changed[2] = {parts[0], {&out, size}};
  return writev(fd, changed, 2);
}

}  // namespace

Result<void> accept_killpriv(fuse_session* session, int fd) {
  fuse_custom_io io{};
  io.read = [](int from, void* buffer, std::size_t size, void*) { return read(from, buffer, size); };
  io.writev = reply;
  if (const int failed = fuse_session_custom_io(session, &io, fd)) return make_error(-failed, "libfuse session");
  return {};
}

void KillprivOffer::note(const fuse_in_header& init) {
  open = body_of<fuse_init_in>(init).flags & kHandleKillprivV2;
}

#endif

}  // namespace lsmfs
