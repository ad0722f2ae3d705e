// kv/library: which version of RocksDB has last used a store, and which one this program has.
//
// RocksDB reads what older versions wrote. What newer ones wrote it may take for damage, above all their lists of tables. Such a
// store is sound and must not be repaired.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "lsmfs/volume.h"

namespace lsmfs::kv {

struct Library {
  unsigned major = 0, minor = 0;
  std::string text() const;  // "RocksDB 9.10"
  static Library ours();
  friend auto operator<=>(const Library&, const Library&) = default;
};

// As the newest file of options says, which RocksDB writes whenever it opens a store; nothing: it does not say.
std::optional<Library> library_of(Volume& volume);

}  // namespace lsmfs::kv
