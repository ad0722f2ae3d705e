#include <fmt/format.h>

#include "lsmfs/base.h"

namespace lsmfs {
namespace {

// What makes text run the other way, or ends a line: these let a name look like another one, or like more than one.
bool turns(char32_t code) {
  return code == 0x61c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

std::string escaped(std::string_view text, bool backslashes) {
  std::string out;
  while (!text.empty()) {
    const auto character = first_character(text);
    const std::size_t bytes = character ? character->bytes : 1;
    const bool plain = character && !is_control(character->code) && !turns(character->code) && !(backslashes && character->code == '\\');
    for (const char byte : text.substr(0, bytes)) {
      if (plain) {
        out += byte;
      } else {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace

std::optional<Character> first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (text.empty()) return std::nullopt;
  if (first < 0x80) return Character{first, 1};
  const std::size_t bytes = first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (bytes == 0) return std::nullopt;
  char32_t code = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (byte(i) & 0x3f);
  }
  // Overlong, surrogates, too large.
  if ((bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000) || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return std::nullopt;
  return Character{code, bytes};
}

std::string printable(std::string_view text) { return escaped(text, true); }

std::string visible(std::string_view text) { return escaped(text, false); }

}  // namespace lsmfs
