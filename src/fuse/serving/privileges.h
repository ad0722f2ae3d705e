// Set-user-id and set-group-id bits, which a file loses when its owner or its data changes.
//
// With FUSE_HANDLE_KILLPRIV_V2 the kernel leaves that to the daemon and says in WRITE and SETATTR
// when it is due (linux/fuse.h). Without it, it would ask for the attributes before each chown and for
// security.capability before each write. libfuse does not hand on the flags: they are read from the messages here.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "fuse/transport/libfuse.h"
#include "lsmfs/tree.h"

struct fuse_in_header;

namespace lsmfs {

// Sees all requests as they come from the kernel. Threads: any.
class PrivilegeWatch {
 public:
  // Whether `request` takes such bits away from the file it is about. Must hold: the message is whole.
  bool drops(const fuse_in_header& request);

 private:
  std::atomic<std::uint64_t> without_capability_{0};  // the file whose security.capability was removed last
};

// Who waits for the answer to a request. The kernel says it with requests that make something, and leaves it out of others, since it
// lets mounts have owners of their own (FUSE_ALLOW_IDMAP): then /proc says it. Somebody else's it cannot become meanwhile: once a
// request has been read, the thread that made it does not go on, nor end, before it is answered (fuse_request_wait_answer of the kernel).
struct Caller {
  static constexpr std::uint32_t kUnknown = ~0u;  // where /proc hides it, or for a caller of another process namespace
  uid_t uid = kUnknown;
  gid_t gid = kUnknown;
  bool is_root() const { return uid == 0; }
};
// Must hold: it has not been answered. For requests of the kernel's own, such as late writes, it says nothing of use.
Caller caller_of(fuse_req_t req);
// Likewise, but always as /proc says it. In a mount that has owners of its own, the kernel says of who makes something whom the caller is there.
Caller process_of(fuse_req_t req);

// The effective capabilities of the caller's process, a bit for each; none if /proc does not tell.
std::uint64_t capabilities_of(fuse_req_t req);

// Whether the caller may keep a set-group-id bit of that group.
bool root_or_in_group(fuse_req_t req, gid_t gid);

// What is left of a file's mode then, by the rules of the kernel's setattr_should_drop_suidgid: a
// directory keeps its bits; set-group-id without group execution, which once meant mandatory
// locking, goes when the caller does not belong to the file's group.
std::uint32_t without_privileges(const Attr& attr, fuse_req_t req);

}  // namespace lsmfs
