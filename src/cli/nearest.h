// Which of several words somebody may have meant who mistyped one.
#pragma once

#include <span>
#include <string_view>

namespace lsmfs::cli {

// "": none of them is near. A letter that is wrong, missing, too many, or that has changed places with the next counts as one mistake;
// a third of the word's letters may be mistakes, and one always.
std::string_view nearest(std::string_view word, std::span<const std::string_view> words);

}  // namespace lsmfs::cli
