// What is imported: a tar archive, also compressed, or a directory, as libarchive reads it, becomes a stream of records (lsmfs/import.h).
//
// Paths are made to lie within the directory that is imported to: slashes at their begin go, as do components ".". A path with ".." is
// refused. What only root may set is left out for others, and counted.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/messages.h"
#include "lsmfs/import.h"

namespace lsmfs::cli {

struct SourceOptions {
  std::string path;      // of the archive or of the directory; "-": the archive comes by standard input
  bool as_root = false;  // owners and privileged attributes are told
  std::uint32_t umask = 0;  // of who is not root: taken from modes, as by tar, and all but permissions
};

struct SourceProgress {
  std::uint64_t done = 0;              // bytes of the archive, as it is stored, or of data of the directory
  std::optional<std::uint64_t> total;  // if it is known
  std::uint64_t entries = 0;
};

struct SourceFacts {
  std::uint64_t left_out = 0;  // attributes that only root may set, and access control lists
  std::uint64_t foreign = 0;   // attributes of other systems, and entries of access control lists for whom nobody here knows
  bool stripped = false;       // some paths began with a slash
};

// Takes away what there is of the stream; gives why to stop.
using TakeStream = std::function<std::optional<Problem>(std::string& stream, const SourceProgress& progress)>;

// Calls `take` with about a MiB at a time, and at the end with the rest. The problem: of `take`, or that the source cannot be read or
// understood, in which case the stream has ended early.
std::optional<Problem> read_source(const SourceOptions& options, const TakeStream& take, SourceFacts& facts);

// A line for each of what was left out or changed.
void tell_facts(const std::string& source, const SourceFacts& facts);

}  // namespace lsmfs::cli
