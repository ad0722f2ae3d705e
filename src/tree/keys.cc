#include "tree/keys.h"

#include <bit>

namespace lsmfs::keys {

std::string child_home(std::string_view parent_home, std::string_view name, Ino ino) {
  std::string home;
  home.reserve(parent_home.size() + name.size() + 10);
  home.append(parent_home).append(name).push_back('\0');
  const int length = (std::bit_width(ino.v) + 7) / 8;
  home.push_back(static_cast<char>(length));
  for (int i = length - 1; i >= 0; --i) home.push_back(static_cast<char>(ino.v >> (8 * i)));
  return home;
}

bool too_deep(std::string_view parent_home, std::string_view name, Ino ino) {
  const auto number_size = static_cast<std::size_t>((std::bit_width(ino.v) + 7) / 8);
  return parent_home.size() + name.size() + 2 + number_size > kPathHomeMax;
}

std::string far_home(Ino ino) { return child_home("/", "", ino); }

std::string entry(std::string_view dir_home, std::string_view name) {
  std::string key;
  key.reserve(dir_home.size() + 1 + name.size());
  key.append(dir_home).push_back('\0');
  key.append(name);
  return key;
}

std::string xattr(std::string_view home, std::string_view name) {
  std::string key(home);
  key.append("\0\0", 2);
  key.append(name);
  return key;
}

std::string linked(Ino ino) {
  std::string key(kLinkedPrefix);
  put_be64(key, ino.v);
  return key;
}

std::string orphan(Ino ino) {
  std::string key(kOrphanPrefix);
  put_be64(key, ino.v);
  return key;
}

std::string entries_begin(std::string_view dir_home) {
  std::string key(dir_home);
  key.append("\0\x01", 2);
  return key;
}

std::string entries_end(std::string_view dir_home) {
  std::string key(dir_home);
  key.push_back('\x01');
  return key;
}

std::string prefix_end(std::string_view prefix) {
  std::string key(prefix);
  while (static_cast<std::uint8_t>(key.back()) == 0xff) key.pop_back();
  ++key.back();
  return key;
}

std::string block(std::string_view home, BlockIndex index) {
  std::string key;
  key.reserve(home.size() + 8);
  key.append(home);
  put_be64(key, index.v);
  return key;
}

std::optional<std::uint64_t> block_index(std::string_view key, std::size_t home_size) {
  if (key.size() != home_size + 8) return std::nullopt;
  Reader reader(key.substr(home_size));
  return reader.be64();
}

}  // namespace lsmfs::keys
