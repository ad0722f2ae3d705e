// What the commands that make a directory at once have in common: clone, snapshot and import. They say in one line why it cannot be done.
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

Place place_of(const std::string& path);
// Why no directory can be made there, as far as can be told before; empty: it can.
std::string wrong_place(const Place& place);

// Why the source cannot be copied, whatever the target is; empty: it can be. `of_file`, `elsewhere`: what to do about a file, and about
// what is not in an lsmfs.
std::string wrong_source(const std::string& source, std::string_view of_file, std::string_view elsewhere);

// What an error of clone_in_mount() is called.
std::string explain_cloning(const std::string& source, const Place& place, const Error& error);

// Makes a snapshot that is called before-WHAT- with the directory and the time after it (snapshot.cc). So it has a name, and no rule of rotation
// counts it. Gives its path; the context of an error is a whole message.
Result<std::string> snapshot_before(std::string_view what, const std::string& directory);
// For a terminal as one line; for a program as it is.
void print_path(const std::string& path);

}  // namespace lsmfs::cli
