// lsmfs trim: gives the free space of a mounted file system back to its device, as fstrim(8) does.

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/paths.h"
#include "cli/sizes.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

std::string explain_trimming(const std::string& path, const Error& error) {
  switch (error.code) {
    case ENOTTY:
      return path + ": is not in an lsmfs that is mounted";
    case EPERM:
      return path + ": only root and who mounted it may trim it";
    case EOPNOTSUPP:
      return path + ": the device cannot discard";
    case EROFS:
      return path + ": is mounted read-only";
    default:
      return explain(path, error);
  }
}

}  // namespace

int trim(const std::string& given) {
  const std::string path = absolute_path(given);
  // Others know the ioctl as well.
  const auto ours = query_mount(path);
  if (!ours) return report({kFailure, explain_trimming(path, ours.error())});
  const auto trimmed = trim_mount(path);
  if (!trimmed) return report({kFailure, explain_trimming(path, trimmed.error())});
  fmt::print("{}: {} ({} bytes) trimmed\n", path, format_size(trimmed->v), trimmed->v);
  return kOk;
}

}  // namespace lsmfs::cli
