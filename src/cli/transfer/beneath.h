// Opens what lies below a directory, and never anything else: no symbolic link is followed, and nothing that is mounted there is entered.
#pragma once

#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// `path`: names with slashes between them, "" for the directory itself; of any length. `flags`: of open(2). Errors: those of openat2(2), of which
// ELOOP and EXDEV are about links and mounts.
Result<Fd> open_beneath(const Fd& directory, std::string_view path, int flags);

std::string parent_of(std::string_view path);     // "" of what has none
std::string last_name_of(std::string_view path);
std::string path_of_child(std::string_view directory, std::string_view name);
// As a walk goes: a directory comes before what lies in it, and that before what comes after the directory.
bool is_earlier(std::string_view a, std::string_view b);
// Whether it is the other one or lies below it. All lies below "".
bool lies_in(std::string_view path, std::string_view above);

}  // namespace lsmfs::cli
