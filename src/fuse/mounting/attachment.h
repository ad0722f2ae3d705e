// Mounts that are attached nowhere yet: a directory of what is mounted becomes one, and is attached elsewhere.
// By system calls of which C libraries know nothing before 2.36.
#pragma once

#include <string>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs {

// A read-only mount of a directory of open_part(), without what is mounted below it, and with the flags that mount_part() says. Errors, which
// call it `name`: those of open_tree(2) and mount_setattr(2), as EPERM, ENOSYS.
Result<Fd> detached_copy(const Fd& part, const std::vector<std::string>& kernel_options, const std::string& name);

// Attaches it to the open directory `place`, which errors call `name`. Errors: those of move_mount(2).
Result<void> attach(const Fd& mount, const Fd& place, const std::string& name);

}  // namespace lsmfs
