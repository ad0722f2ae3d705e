// Unseen: which blocks of a base none of those sees who have some of it, from what their parts say. It is how blocks of a base are freed that
// still has users (bases.cc), and how it is foreseen that they would be (freed_bytes.h).
//
// What it is not: it reads and changes no rows. A user who has the base as a whole sees all of it, which is for the caller to know.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tree/file_blobs.h"

namespace lsmfs {

// A base of more users is left as it is.
inline constexpr std::size_t kTrimUsers = 64;

using BlockRuns = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // [from, to), blocks of a base

// Adds the blocks of the base at `base` that a user has, whose parts these are. In no order.
void add_seen(const FileBlobs& of_user, const std::string& base, BlockRuns& seen);

struct Unseen {
  BlockRuns hidden;          // in order; reach up to `end`
  std::uint64_t blocks = 0;  // that are seen
  std::uint64_t past = 0;    // after the last of these; over `end` only if something is damaged
};
// `seen`: of all users. `end`: so many blocks the base could have.
Unseen unseen_of(BlockRuns seen, std::uint64_t end);

// Of parts of a base those that can go, as runs of its blocks: what it shares itself, and blobs of which nobody sees anything. Others would be
// waste that nobody can make rows of.
BlockRuns parts_to_go(const FileBlobs& parts, const BlockRuns& hidden);

}  // namespace lsmfs
