// Paths as the mount table writes them.
#pragma once

#include <string>

namespace lsmfs::cli {

// Absolute and without symbolic links as far as it exists; the rest is only tidied. Never asks a
// file system whose daemon is gone.
std::string absolute_path(const std::string& path);

}  // namespace lsmfs::cli
