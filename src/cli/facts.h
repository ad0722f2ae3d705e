// The facts that `lsmfs info` prints, and that a daemon gives to whoever asks it.
#pragma once

#include <string>

#include "cli/opened.h"

namespace lsmfs::cli {

// `mount_point`: empty when it is not mounted.
std::string facts_json(Opened& opened, const std::string& mount_point);

// The same for people. What is not in `json` is left out; text that is not JSON gives nullopt.
std::optional<std::string> facts_text(const std::string& json);

}  // namespace lsmfs::cli
