// lsmfs clone: copies a directory with all that lies below it, at once, within one file system.

#include "cli/clones.h"
#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
int clone(const CloneArguments& arguments) {
  const std::string source = without_trailing_slashes(arguments.source);
  const Place place = place_of(without_trailing_slashes(arguments.target));
  if (const auto why = wrong_source(source, "use cp --reflink", "use cp -a"); !why.empty()) return report({kFailure, why});
  if (const auto why = wrong_place(place); !why.empty()) return report({kFailure, why});
  const auto cloned = clone_in_mount(source, place.parent, place.name);
  return cloned ? kOk : report({kFailure, explain_cloning(source, place, cloned.error())});
}

}  // namespace lsmfs::cli
