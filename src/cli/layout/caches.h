// Making the next reads come from the device.
#pragma once

#include "cli/layout/devices.h"

namespace lsmfs::cli {

// Writes everything (sync(2)), and drops the kernel's caches of all file systems (/proc/sys/vm/drop_caches) and those of the
// daemons that serve an lsmfs on one of `devices`. The contexts of errors are whole messages.
Result<void> drop_caches(const TracedDevices& devices);

}  // namespace lsmfs::cli
