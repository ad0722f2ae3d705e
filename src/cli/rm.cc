// lsmfs rm -r: removes directories with all that lies below them, each as a whole or not at all.

#include "cli/commands.h"
#include "cli/exit_codes.h"
#include "cli/messages.h"
#include "cli/removal.h"

namespace lsmfs::cli {

int rm(const RmArguments& arguments) {
  if (!arguments.recursive) return report({kUsage, "rm: give -r; it removes directories with all that lies below them, and rm(1) removes files"});
  int code = kOk;
  for (const std::string& directory : arguments.directories) {
    if (const auto problem = remove_directory(directory)) code = report(*problem);
  }
  return code;
}

}  // namespace lsmfs::cli
