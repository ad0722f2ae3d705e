#include "tree/block_patch.h"

#include <algorithm>

#include "lsmfs/tree.h"

namespace lsmfs::block_patch {

std::string encode(std::string_view bytes) {
  std::string out;
  out.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    out.push_back(byte);
    out.push_back('\x01');
  }
  return out;
}

bool is_sound(std::string_view value) {
  if (value.empty() || value.size() % 2 != 0 || value.size() > 2 * kBlockSize) return false;
  for (std::size_t i = 0; i < value.size(); i += 2) {
    if (value[i + 1] != 1 && (value[i + 1] != 0 || value[i] != 0)) return false;
  }
  return true;
}

bool apply(std::string_view value, MutableBytes block, std::size_t at) {
  if (!is_sound(value)) return false;
  for (std::size_t i = at; i < std::min(value.size() / 2, at + block.size()); ++i) {
    if (value[2 * i + 1] != 0) block[i - at] = static_cast<std::byte>(value[2 * i]);
  }
  return true;
}

}  // namespace lsmfs::block_patch
