#include "cli/whole.h"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cli/exit_codes.h"
#include "cli/messages.h"

namespace lsmfs::cli {
namespace {

// "": it cannot be told.
std::string own_folder() {
  char resolved[PATH_MAX];
  // The second is how it was called; the first is right also then, but is there only where /proc is.
  for (const char* path : {"/proc/self/exe", reinterpret_cast<const char*>(getauxval(AT_EXECFN))}) {
    if (path == nullptr || realpath(path, resolved) == nullptr) continue;
    const std::string program = resolved;
    return program.substr(0, program.rfind('/'));
  }
  return "";
}

}  // namespace

int become_whole(char** argv) {
  const std::string folder = own_folder();
  std::string missing;
  for (const char* place : {"/" LSMFS_LIBEXEC "/lsmfs/lsmfs", "/libexec/lsmfs/lsmfs"}) {
    const std::string path = folder + place;
    execv(path.c_str(), argv);
    if (errno != ENOENT && errno != ENOTDIR) return report({kSystemError, fmt::format("{}: {}", path, std::strerror(errno))});
    if (missing.empty()) missing = path;
  }
  return report({kSystemError, fmt::format("{}: is not there; install lsmfs anew, with all of its parts", missing)});
}

}  // namespace lsmfs::cli
