// What --version says.
#pragma once

#include <string>

namespace lsmfs::cli {

// The program's version, that of the format of its volumes, and those of the libraries in use: a line each, without an end of the last.
std::string version_text();

}  // namespace lsmfs::cli
