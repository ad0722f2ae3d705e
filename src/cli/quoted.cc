#include "cli/quoted.h"

#include <fmt/format.h>

#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

// "" if it is written in another way.
std::string_view escape_of(char c) {
  switch (c) {
    case '\a': return "\\a";
    case '\b': return "\\b";
    case '\t': return "\\t";
    case '\n': return "\\n";
    case '\v': return "\\v";
    case '\f': return "\\f";
    case '\r': return "\\r";
    case '"': return "\\\"";
    case '\\': return "\\\\";
    default: return "";
  }
}

}  // namespace

std::string quoted_name(std::string_view path) {
  std::string out;
  bool any_odd = path.find(" -> ") != path.npos || path.ends_with(" ->") || path.starts_with("-> ");
  while (!path.empty()) {
    const auto character = first_character(path);
    const std::string_view bytes = path.substr(0, character ? character->bytes : 1);
    path.remove_prefix(bytes.size());
    if (visible(bytes) == bytes && escape_of(bytes.front()).empty()) {
      out += bytes;
      continue;
    }
    any_odd = true;
    for (const char byte : bytes) {
      const std::string_view escape = escape_of(byte);
      out += escape.empty() ? fmt::format("\\{:03o}", static_cast<unsigned char>(byte)) : std::string(escape);
    }
  }
  return any_odd ? fmt::format("\"{}\"", out) : out;
}

}  // namespace lsmfs::cli
