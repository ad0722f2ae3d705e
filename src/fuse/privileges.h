// Set-user-id and set-group-id bits, which a file loses when its owner or its data changes.
//
// With FUSE_HANDLE_KILLPRIV_V2 the kernel leaves that to the daemon and says in WRITE and SETATTR
// when it is due (linux/fuse.h). Without it, it would ask for the attributes before each chown and for
// security.capability before each write. libfuse does not hand on the flags: they are read from the messages here.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "fuse/libfuse.h"
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

// Whether the caller may keep a set-group-id bit of that group.
bool root_or_in_group(fuse_req_t req, gid_t gid);

// What is left of a file's mode then, by the rules of the kernel's setattr_should_drop_suidgid: a
// directory keeps its bits; set-group-id without group execution, which once meant mandatory
// locking, goes when the caller does not belong to the file's group.
std::uint32_t without_privileges(const Attr& attr, fuse_req_t req);

}  // namespace lsmfs
