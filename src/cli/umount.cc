// lsmfs umount: returns when all is on disk.

#include <fmt/format.h>
#include <sys/file.h>

#include <chrono>

#include "cli/commands.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "lsmfs/clock.h"
#include "lsmfs/device.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {
namespace {

// The daemon of an image ends some time after the mount is gone; it holds a lock on the image until
// all is written. Whoever may not open the image cannot wait for that.
void wait_for_daemon(const Result<Fd>& image, const std::string& source) {
  if (!image) return;
  // Not one waiting call: a next mount may take the lock first, and would be waited for to its end.
  while (flock(image->get(), LOCK_SH | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR) && !mounted_where(source)) {
    system_clock().sleep(std::chrono::milliseconds(5));
  }
}

}  // namespace

int umount(const std::string& given) {
  const std::string directory = absolute_path(given);
  const auto table = mount_table();
  if (!table) return report({kSystemError, table.error().message()});
  const MountEntry* top = nullptr;
  for (const auto& entry : *table) {
    if (entry.mount_point == directory) top = &entry;
  }
  if (top == nullptr) return report({kMountFailure, directory + ": is not mounted"});
  if (!top->is_lsmfs()) {
    return report(
        {kMountFailure, fmt::format("{}: is a mount of type {}, not lsmfs; use umount", directory, top->type)});
  }
  // Opened before, since nothing says where the image is afterwards. Whoever mounted it may have given any name.
  const std::string name = top->source;
  const auto source = open_to_look(name);
  const auto done = unmount(directory, false);
  if (!done) {
    switch (done.error().code) {
      case EBUSY:
        return report(
            {kMountFailure, directory + ": is in use; end the programs that have files open there (fuser -m)"});
      case EPERM:
        return report({kUsage, directory + ": no permission to unmount it"});
      default:
        return report({kMountFailure, fmt::format("{}: {}", directory, done.error().message())});
    }
  }
  wait_for_daemon(source, name);
  return kOk;
}

}  // namespace lsmfs::cli
