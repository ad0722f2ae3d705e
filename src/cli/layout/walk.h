// Reading a whole tree, as `grep -r` does: depth first, in the order in which directories list their entries, one file after
// the other. It changes no access times where that can be had, follows no symbolic links and enters no other mount.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

struct WalkCounts {
  std::uint64_t files = 0;  // regular ones
  std::uint64_t directories = 0;
  ByteCount bytes;
  std::uint64_t failures = 0;   // files and directories that could not be read
  std::string first_failure;    // one line
};

// `path`: a directory or a regular file. `stop`: is asked before each read. Errors: those of opening `path` itself, with the
// whole message as the context; EINTR (stopped).
Result<WalkCounts> read_tree(const std::string& path, const std::function<bool()>& stop);

}  // namespace lsmfs::cli
