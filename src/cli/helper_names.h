// The names by which the tools of util-linux call the program for a type of file system: mount.TYPE, fsck.TYPE and mkfs.TYPE.
#pragma once

#include <optional>
#include <string_view>

namespace lsmfs::cli {

// Which tool calls it by that path: "mount" of "/sbin/mount.fuse.lsmfs". nullopt: none.
std::optional<std::string_view> helper_tool(std::string_view path);

}  // namespace lsmfs::cli
