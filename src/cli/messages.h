// Errors as people read them: one line that names the thing, the reason and what to do.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// An error whose context is a whole message: nothing is added to it.
struct Problem {
  int exit_code;
  std::string text;
};

// "lsmfs: TEXT" on stderr; gives the exit code.
int report(const Problem& problem);

// What an error of a lower layer, met while working on the device or image at `path`, is called.
std::string explain(const std::string& path, const Error& error);

}  // namespace lsmfs::cli
