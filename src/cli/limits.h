// Limits of resources (ulimit, limits.conf, LimitFSIZE= of systemd) that would end a daemon long after it has begun.
#pragma once

#include <cstdint>
#include <optional>

namespace lsmfs::cli {

// Raises those on the size of files and on processor time as far as this process may. What is left of processor time ends by
// SIGXCPU some seconds before it ends by SIGKILL.
void raise_limits();

// The most bytes that this process may write into a file; nullopt: any number.
std::optional<std::uint64_t> largest_file();

}  // namespace lsmfs::cli
