// Permission to change the entries of a directory, for requests before which the kernel checks none: ioctls.
//
// The rules are those of the kernel for its own checks, fs/namei.c and fs/posix_acl.c. What they look at is for the caller to read.
#pragma once

#include <functional>
#include <string_view>

#include "lsmfs/tree.h"

namespace lsmfs {

// Who asks, and is not root.
struct Asker {
  uid_t uid;
  std::function<bool(gid_t)> is_in_group;
};

// Whether he may write in the directory and look names up in it. `list`: its access control list, as system.posix_acl_access; empty: none.
bool may_write_in(const Attr& directory, std::string_view list, const Asker& asker);

// The same, and whether its sticky bit lets him take away something that is owned by `owner`.
bool may_remove_from(const Attr& directory, std::string_view list, uid_t owner, const Asker& asker);

}  // namespace lsmfs
