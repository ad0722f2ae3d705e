// The row of a patch: what was written over parts of a block that lies in a blob (file_blobs.h). The writer need not know what lies under it.
//
// Its value has two bytes for each byte of the block, up to the last one that was written: that byte, and 1 if it was written, else both 0.
// So a later write patches the value, as it would a block, and what lies between two writes stays open.
//
// What it is not: it reads and writes no rows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::block_patch {

// Longer parts are not worth it: a row in their place takes less than twice as much.
inline constexpr std::size_t kMost = 512;
// What a row of a patch takes with its key at most, when so many bytes are written.
constexpr std::size_t cost(std::size_t bytes) { return 64 + 2 * bytes; }

// What writing `bytes` at `at` of the block puts into the value, and where.
std::string encode(std::string_view bytes);
constexpr std::size_t offset(std::size_t at) { return 2 * at; }

bool is_sound(std::string_view value);
// Writes over a block, or over the part of it that begins at `at`, what the value says. false: it is damaged, and nothing has changed.
bool apply(std::string_view value, MutableBytes block, std::size_t at = 0);

}  // namespace lsmfs::block_patch
