// Removes a directory with all that lies below it, as one whom no flag of it hinders.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// Takes the flags from it that let nothing be changed; whether it had any.
bool unlock(const Fd& file);
bool unlock(const Fd& directory, const std::string& name);  // nothing is followed

// Whatever is of that name in the directory. At once where the caller may (lsmfs rm -r), else one by one. That nothing is there is no error.
// Follows no links. Errors: of unlinkat(2) and their like.
Result<void> remove_all(const Fd& directory, const std::string& name);

}  // namespace lsmfs::cli
