// What the program says: one line that names the thing, the reason and what to do.
#pragma once

#include <string>
#include <string_view>

#include "cli/exit_codes.h"
#include "lsmfs/base.h"

namespace lsmfs::simdisk {

void tell(std::string_view line);  // "simdisk: LINE" on stderr, as one line
// Tells it; gives the exit code.
int fail(int exit_code, std::string_view line);

// What an error with the backing file or the mount point at `path` is called, and what to do about it.
std::string explain(const std::string& path, const Error& error);

}  // namespace lsmfs::simdisk
