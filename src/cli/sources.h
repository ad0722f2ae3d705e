// What people name as the source of a mount: a path, LABEL=... or UUID=... of an lsmfs on some block device, or a device of an NBD server.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/device.h"
#include "lsmfs/lease.h"

namespace lsmfs::cli {

// The absolute path, without symbolic links, or what was said of an NBD server. By label or UUID every block device that the kernel knows is looked at:
// libblkid does not know the format. The error's context is a whole message: ENOENT nothing has it, ENOTUNIQ several
// have it.
Result<std::string> find_source(const std::string& source);

// For devices that can be away for a while: how long that may take, and who is told.
struct Away {
  std::chrono::seconds patience{60};
  std::optional<LeaseHolder> writer;  // who has the lease of the volume from now on, if it has one, and then still must
  std::function<void(std::string_view)> notice;  // none: stderr
};
// Opens what find_source() gave. An NBD server knows nothing of `sharing`; see keep_others_out(). Must hold: this process has no other
// thread. Errors: those of open_device() and open_nbd().
Result<std::unique_ptr<Device>> open_source(const std::string& source, Access access, Sharing sharing, const Away& away = {});
// The error of a path that leads nowhere. Of an NBD server only connecting tells.
Result<void> check_there(const std::string& source);

}  // namespace lsmfs::cli
