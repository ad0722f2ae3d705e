// The names of the extended attributes of an inode. It asks how many there are first, since most have none.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lsmfs::cli {

// `list`: flistxattr(2) or llistxattr(2) of an inode whose attributes nobody changes meanwhile. Where attributes are not kept there are none.
// nullopt: errno says why.
std::optional<std::vector<std::string>> xattr_names(const std::function<ssize_t(char* names, std::size_t size)>& list);

}  // namespace lsmfs::cli
