// Errors as people read them: one line that names the thing, the reason and what to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// An error whose context is a whole message: nothing is added to it.
struct Problem {
  int exit_code;
  std::string text;
};

inline constexpr auto kBetweenWords = std::chrono::milliseconds(200);  // of progress

// Both write what a terminal may be given, whatever is in a name.
void tell(std::string_view line);                          // "lsmfs: LINE" on stderr
void say(const std::string& path, std::string_view line);  // "PATH: LINE" on stdout, with the path once
// Tells the text, as one line; gives the exit code.
int report(const Problem& problem);

// What an error of a lower layer, met while working on the device or image at `path`, is called.
std::string explain(const std::string& path, const Error& error);

std::string used_by(const std::string& path, const std::string& user);  // what to do about `user`, of in_use()
std::string counted_problems(std::uint64_t problems);  // "1 problem", "2 problems"

}  // namespace lsmfs::cli
