// The program under the names by which the tools of util-linux call it for a type of file system: mount(8),
// fsck(8) and mkfs(8) run mount.TYPE and so on, with arguments of their own making.
#pragma once

#include <optional>

namespace lsmfs::cli {

// The exit code; nullopt: argv[0] is none of these names.
std::optional<int> run_as_helper(int argc, char** argv);

}  // namespace lsmfs::cli
