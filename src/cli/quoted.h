// Names that others chose, on lines that people read and programs take apart: as git writes them.
#pragma once

#include <string>
#include <string_view>

namespace lsmfs::cli {

// As it is, unless it holds control characters, quotes, backslashes, " -> ", bytes that are no UTF-8, or what turns the direction of text. Then
// it is put into double quotes, and those are written as in C: \n, \", \\, \ooo.
std::string quoted_name(std::string_view path);

}  // namespace lsmfs::cli
