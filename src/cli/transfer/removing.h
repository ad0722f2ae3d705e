// Removes a directory with all that lies below it, as one whom no flag of it hinders.
#pragma once

#include <cstdint>
#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// Takes the flags from it that let nothing be changed. All flags that it had; none where there are no flags. Errors: of FS_IOC_SETFLAGS.
Result<std::uint32_t> unlock(const Fd& file);
// After EPERM: the same of the directory and of what has the name in it, if that is a file or directory. Whether it is worth to try again; else
// errno says why it is not: EPERM where no flag is in the way.
bool unlock_both(const Fd& directory, const std::string& name);

// Whatever is of that name in the directory. At once where the caller may (lsmfs rm -r), else one by one. That nothing is there is no error.
// Follows no links. Errors: of unlinkat(2) and their like.
Result<void> remove_all(const Fd& directory, const std::string& name);

}  // namespace lsmfs::cli
