// What may be read where some of it cannot be read any more: the right thing or an error.
#pragma once

#include <set>
#include <string>

namespace lsmfs::test {

// What a reader is told that never was, or not told without an error; "": nothing. `found` and `expected` as by dump()
// (tree/model.h), `failed`: the paths that gave errors, below which nothing can be found.
std::string lies(const std::string& found, const std::string& expected, const std::set<std::string>& failed);

}  // namespace lsmfs::test
