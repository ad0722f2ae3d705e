// What people name as the source of a mount: a path, or LABEL=... or UUID=... of an lsmfs on some block device.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// The absolute path, without symbolic links. By label or UUID every block device that the kernel knows is looked at:
// libblkid does not know the format. The error's context is a whole message: ENOENT nothing has it, ENOTUNIQ several
// have it.
Result<std::string> find_source(const std::string& source);

}  // namespace lsmfs::cli
