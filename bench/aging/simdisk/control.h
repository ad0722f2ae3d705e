// What is written to the control files: one word, and a newline or none.
#pragma once

#include <optional>
#include <string_view>

#include "simdisk/model.h"

namespace lsmfs::simdisk {

// nullopt: not the name of a profile.
std::optional<Profile> parse_profile(std::string_view written);
// "on" or "off"; nullopt: neither.
std::optional<bool> parse_switch(std::string_view written);

}  // namespace lsmfs::simdisk
