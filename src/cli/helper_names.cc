#include "cli/helper_names.h"

#include <algorithm>

namespace lsmfs::cli {

std::optional<std::string_view> helper_tool(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  // The type is "lsmfs" in fstab, and what the mount table says for a mount that is there.
  const auto dot = std::min(name.find('.'), name.size());
  const std::string_view type = name.substr(dot), tool = name.substr(0, dot);
  if (type != ".lsmfs" && type != ".fuse.lsmfs" && type != ".fuseblk.lsmfs") return std::nullopt;
  if (tool != "mount" && tool != "fsck" && tool != "mkfs") return std::nullopt;
  return tool;
}

}  // namespace lsmfs::cli
