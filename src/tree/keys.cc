#include "tree/keys.h"

#include <bit>
#include <cassert>

namespace lsmfs::keys {
namespace {

using std::string_view_literals::operator""sv;

// Rows that belong to a number, and those of them that have another one as well.
std::string numbered(std::string_view prefix, Ino number) {
  std::string key(prefix);
  put_be64(key, number.v);
  return key;
}

std::string numbered(std::string_view prefix, Ino number, std::uint64_t second) {
  std::string key = numbered(prefix, number);
  put_be64(key, second);
  return key;
}

}  // namespace

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
std::string root_home(Ino number) { return number == kRootIno ? "" : child_home("//", "", number); }

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

std::string linked(Ino ino) { return numbered(kLinkedPrefix, ino); }
std::string orphan(Ino ino) { return numbered(kOrphanPrefix, ino); }
std::string blobs_begin(Ino number) { return numbered(kBlobPrefix, number); }
std::string blobs_end(Ino number) { return blobs_begin(Ino{number.v + 1}); }
std::string blob(Ino number, BlockIndex first) { return numbered(kBlobPrefix, number, first.v); }
std::string blob_patch(Ino number, BlockIndex index) { return numbered(kBlobPatchPrefix, number, index.v); }
std::string node(Ino number) { return numbered(kNodePrefix, number); }
std::string users_begin(Ino base) { return numbered(kUserPrefix, base); }
std::string users_end(Ino base) { return users_begin(Ino{base.v + 1}); }
std::string user(Ino base, Ino user) { return numbered(kUserPrefix, base, user.v); }

std::string change(std::uint64_t sequence) {
  std::string key(kChanges);
  put_be64(key, ~sequence);
  return key;
}

std::string changes_end() { return prefix_end(kChanges); }

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
  while (!key.empty() && static_cast<std::uint8_t>(key.back()) == 0xff) key.pop_back();
  assert(!key.empty());
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

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && name.find('\0') == name.npos && name.find('/') == name.npos && name != "." && name != "..";
}

namespace {

// Of what is not the root.
bool is_number(Ino ino) { return ino > kRootIno && ino < kCountedMax; }

struct Component {
  std::string_view name;
  Ino ino;
  std::size_t size;  // in the key
};

// The component of `key` that begins at `at`. The first one may be a far home, or the root's.
std::optional<Component> parse_component(std::string_view key, std::size_t at) {
  const std::string_view rest = key.substr(at);
  const auto zero = rest.find('\0');
  if (zero == rest.npos || zero + 1 >= rest.size()) return std::nullopt;
  if (!is_name(rest.substr(0, zero)) && !(at == 0 && (rest.starts_with("/\0"sv) || rest.starts_with("//\0"sv)))) return std::nullopt;
  const std::size_t length = static_cast<std::uint8_t>(rest[zero + 1]);
  const std::size_t size = zero + 2 + length;
  if (length == 0 || length > 8 || size > rest.size() || rest[zero + 2] == 0) return std::nullopt;
  Component component{rest.substr(0, zero), Ino{}, size};
  for (std::size_t i = zero + 2; i < size; ++i) component.ino.v = component.ino.v << 8 | static_cast<std::uint8_t>(rest[i]);
  if (!is_number(component.ino)) return std::nullopt;
  return component;
}

}  // namespace

std::optional<NamesKey> parse_names(std::string_view key) {
  NamesKey parsed{NamesKey::Kind::entry, {}, kRootIno, {}};
  std::size_t at = 0;
  while (at < key.size() && key[at] != '\0') {
    const auto component = parse_component(key, at);
    if (!component) return std::nullopt;
    parsed.ino = component->ino;
    at += component->size;
  }
  if (at == key.size() || at > kHomeMax) return std::nullopt;
  parsed.home = key.substr(0, at);
  parsed.name = key.substr(at + 1);
  if (parsed.name.empty()) {
    parsed.kind = NamesKey::Kind::root;
    return parsed.home.empty() ? std::optional(parsed) : std::nullopt;
  }
  if (parsed.name.front() == '\0') {
    parsed.kind = NamesKey::Kind::xattr;
    parsed.name.remove_prefix(1);
    const bool valid = !parsed.name.empty() && parsed.name.size() <= kXattrNameMax && parsed.name.find('\0') == parsed.name.npos;
    return valid ? std::optional(parsed) : std::nullopt;
  }
  return is_name(parsed.name) && at <= kPathHomeMax ? std::optional(parsed) : std::nullopt;
}

std::optional<BlocksKey> parse_block(std::string_view key) {
  constexpr std::size_t kIndex = 8;  // shorter than any component with an index behind it
  BlocksKey parsed{{}, Ino{}, BlockIndex{}};
  std::size_t at = 0;
  while (key.size() - at > kIndex) {
    const auto component = parse_component(key, at);
    if (!component) return std::nullopt;
    parsed.ino = component->ino;
    at += component->size;
  }
  if (at == 0 || at > kHomeMax || key.size() - at != kIndex) return std::nullopt;
  parsed.home = key.substr(0, at);
  parsed.index = BlockIndex{Reader(key.substr(at)).be64()};
  return parsed;
}

namespace {

// A key of a file's number and a block of it.
std::optional<BlobKey> parse_numbered(std::string_view prefix, std::string_view key) {
  if (!key.starts_with(prefix) || key.size() != prefix.size() + 16) return std::nullopt;
  Reader in(key.substr(prefix.size()));
  const Ino ino{in.be64()};
  const BlockIndex block{in.be64()};
  if (!is_number(ino) || block.v >= kFileSizeMax / kBlockSize) return std::nullopt;
  return BlobKey{ino, block};
}

}  // namespace

std::optional<BlobKey> parse_blob(std::string_view key) { return parse_numbered(kBlobPrefix, key); }
std::optional<BlobKey> parse_blob_patch(std::string_view key) { return parse_numbered(kBlobPatchPrefix, key); }

std::optional<Ino> parse_node(std::string_view key) {
  if (!key.starts_with(kNodePrefix) || key.size() != kNodePrefix.size() + 8) return std::nullopt;
  const Ino number{Reader(key.substr(kNodePrefix.size())).be64()};
  return is_number(number) || number == kRootIno ? std::optional(number) : std::nullopt;
}

std::optional<std::uint64_t> parse_change(std::string_view key) {
  if (!key.starts_with(kChanges) || key.size() != kChanges.size() + 8) return std::nullopt;
  return ~Reader(key.substr(kChanges.size())).be64();
}

std::optional<UserKey> parse_user(std::string_view key) {
  if (!key.starts_with(kUserPrefix) || key.size() != kUserPrefix.size() + 16) return std::nullopt;
  Reader in(key.substr(kUserPrefix.size()));
  const Ino base{in.be64()}, user{in.be64()};
  return (is_number(base) || base == kRootIno) && is_number(user) && base != user ? std::optional(UserKey{base, user}) : std::nullopt;
}

std::optional<Ino> number_of(std::string_view home) {
  std::optional<Ino> number;
  if (home.empty()) number = kRootIno;
  for (std::size_t at = 0; at < home.size();) {
    const auto component = parse_component(home, at);
    if (!component) return std::nullopt;
    number = component->ino;
    at += component->size;
  }
  return home.size() > kHomeMax ? std::nullopt : number;
}

std::string_view parent_of(std::string_view home) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < home.size();) {
    last = at;
    at += parse_component(home, at)->size;
  }
  return home.substr(0, last);
}

std::string with_number(std::string_view home, Ino number) {
  const auto old = number_of(home);
  assert(old && !home.empty());
  return child_home(home.substr(0, home.size() - child_home("", "", *old).size()), "", number);
}

std::string path_of(std::string_view home) {
  std::string path;
  std::size_t at = 0;
  while (const auto component = parse_component(home, at)) {
    at += component->size;
    if (component->name == "//") continue;  // of the root
    if (!path.empty()) path += '/';
    if (component->name != "/") path += component->name;
    else path += component->ino == kSnapshotsIno ? kSnapshotsName : "...";
  }
  return path;
}

}  // namespace lsmfs::keys
