// The words for a Choice: auto, on, off.
#pragma once

#include <optional>
#include <string_view>

#include "lsmfs/fuse.h"

namespace lsmfs::cli {

std::optional<Choice> parse_choice(std::string_view word);
std::string_view text_of(Choice choice);

}  // namespace lsmfs::cli
