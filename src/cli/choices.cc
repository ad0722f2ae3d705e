#include "cli/choices.h"

#include <array>

namespace lsmfs::cli {
namespace {

constexpr std::array<std::string_view, 3> kWords{"auto", "on", "off"};  // by Choice

}  // namespace

std::optional<Choice> parse_choice(std::string_view word) {
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    if (kWords[i] == word) return static_cast<Choice>(i);
  }
  return std::nullopt;
}

std::string_view text_of(Choice choice) { return kWords[static_cast<std::size_t>(choice)]; }

}  // namespace lsmfs::cli
