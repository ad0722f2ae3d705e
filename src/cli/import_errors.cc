#include "cli/import_errors.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <string_view>

#include "cli/messages.h"

namespace lsmfs::cli {

std::string explain_import(const std::string& source, const Error& error) {
  const std::string from = source == "-" ? "standard input" : source;
  const auto about = [&](std::string_view why) { return fmt::format("{}: {}: {}", from, error.context.empty() ? "." : error.context, why); };
  switch (error.code) {
    case EPERM: return about("only root can make this: a device, a privileged attribute, or a second name of a directory");
    case ENOENT: return about("is a link to what the archive does not have");
    case ENOTDIR: return about("is no directory, and something is to lie in it");
    case ENOTEMPTY: return about("is a directory in which something lies, and later something else");
    case EMLINK: return about("has too many names");
    case EINVAL: return about("cannot be the path or the owner of a file, or is damaged");
    case EFBIG: return about("is larger than a file can be");
    case ENAMETOOLONG: return about("has too long a name or target");
    case EOPNOTSUPP: return about("has an attribute that this file cannot have");
    case E2BIG: return about("has a larger attribute than a file can have");
    case ENOSPC: return about("no space left on the device");
    default: return explain(from, make_error(error.code, error.context));
  }
}

std::uint32_t current_umask() {
  const mode_t mask = umask(0);
  umask(mask);
  return mask;
}

}  // namespace lsmfs::cli
