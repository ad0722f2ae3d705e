// lsmfs mount -o remount: other options for what is mounted.
#pragma once

#include <string>

#include "cli/mount_options.h"

namespace lsmfs::cli {

// All of it or nothing. `path` and `directory` are absolute; `fake`: all but doing it. Gives the exit code.
int remount(const std::string& path, const std::string& directory, const ParsedOptions& options, bool fake);

}  // namespace lsmfs::cli
