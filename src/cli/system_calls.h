// The system calls that a process may make once it is confined: one list, in system_calls.cc.
#pragma once

#include "lsmfs/base.h"

namespace lsmfs::cli {

// A filter (seccomp) for this thread and all others, for good. Calls that are not in the list fail with ENOSYS and change
// nothing, and the kernel's log tells of them; the process lives on, since a C library that is newer than the list asks
// for calls that it can do without, and a file system that ends is worse than one that cannot do something.
// Must hold: no_new_privs is set. Errors: EINVAL and the like (the kernel has no seccomp).
// Does nothing in builds with a sanitizer, whose runtimes make other calls.
Result<void> restrict_system_calls();

}  // namespace lsmfs::cli
