// Removes a directory with all that lies below it, as `lsmfs rm -r` does.
#pragma once

#include <optional>
#include <string>

#include "cli/messages.h"

namespace lsmfs::cli {

// As a whole, or not at all; then it says why. `path`: of a directory in a mount, on which and below which nothing is mounted.
std::optional<Problem> remove_directory(std::string path);

}  // namespace lsmfs::cli
