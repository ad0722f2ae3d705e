// lsmfs clone: copies a directory with all that lies below it, at once, within one file system.

#include <sys/stat.h>

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

Place place_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos) return {path, ".", path};
  return {path, slash == 0 ? "/" : without_trailing_slashes(path.substr(0, slash)), path.substr(slash + 1)};
}

std::string wrong_place(const Place& place) {
  struct stat facts {};
  if (lstat(place.path.c_str(), &facts) == 0) return place.path + ": exists already; name what is not there yet";
  if (place.name.empty()) return "the target has no name";
  if (errno == ENAMETOOLONG) return place.path + ": the name is too long";
  if (stat(place.parent.c_str(), &facts) != 0) return explain(place.parent, make_error(errno, place.parent));
  if (!S_ISDIR(facts.st_mode)) return place.parent + ": is not a directory";
  return "";
}

}  // namespace

int clone(const CloneArguments& arguments) {
  const std::string source = without_trailing_slashes(arguments.source);
  const Place place = place_of(without_trailing_slashes(arguments.target));
  if (const auto why = wrong_source(source, "use cp --reflink", "use cp -a"); !why.empty()) return report({kFailure, why});
  if (const auto why = wrong_place(place); !why.empty()) return report({kFailure, why});
  const auto cloned = clone_in_mount(source, place.parent, place.name);
  return cloned ? kOk : report({kFailure, explain_cloning(source, place, cloned.error())});
}

}  // namespace lsmfs::cli
