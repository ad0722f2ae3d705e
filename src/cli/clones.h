// What the commands that copy a directory at once have in common: clone and snapshot. Both say in one line why it cannot be done.
#pragma once

#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

std::string without_trailing_slashes(std::string path);

// What a new directory is to be called, and where.
struct Place {
  std::string path, parent, name;
};

// Why the source cannot be copied, whatever the target is; empty: it can be. `of_file`, `elsewhere`: what to do about a file, and about
// what is not in an lsmfs.
std::string wrong_source(const std::string& source, std::string_view of_file, std::string_view elsewhere);

// What an error of clone_in_mount() is called.
std::string explain_cloning(const std::string& source, const Place& place, const Error& error);

}  // namespace lsmfs::cli
