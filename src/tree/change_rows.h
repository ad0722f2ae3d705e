// The rows of the log of changes: its head, and what a group of operations has changed. docs/format.md, "The log of changes".
//
// Paths are from the root on, without a slash at either end; "" is the root. Those in the directory of snapshots begin with its name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/tree.h"

namespace lsmfs {

// A log has one number from one mount to the next that changes something. So a copy of a volume goes on under another one.
struct ChangeHead {
  static constexpr std::size_t kLogsMost = 64;
  static constexpr std::uint64_t kPositionMost = 1ULL << 62;  // also of the bytes
  struct Log {
    std::uint64_t number = 0;
    std::uint64_t from = 0;  // the row that was the last one when it began
    friend bool operator==(const Log&, const Log&) = default;
  };
  std::int64_t asked = 0;           // when somebody asked last, in seconds as of file times, by a day or so
  std::uint64_t dropped = 0;        // the last row that is not there any more
  std::uint64_t dropped_bytes = 0;  // ChangeRow::bytes of that one
  std::vector<Log> logs;            // in their order, the last of them that is written; at least one
  friend bool operator==(const ChangeHead&, const ChangeHead&) = default;
};

// What has changed in a directory: some names in it, or all of it with all below.
struct ChangedNames {
  bool all = false;
  std::set<std::string, std::less<>> names;  // none if all
  friend bool operator==(const ChangedNames&, const ChangedNames&) = default;
};

using ChangedPaths = std::map<std::string, ChangedNames, std::less<>>;  // by path of the directory

struct ChangeRow {
  static constexpr std::size_t kPathMost = 4096;  // what lies deeper is told with all that is below
  std::uint64_t bytes = 0;  // that the log has been given up to this row, with it, in all its time
  ChangedPaths paths;
  friend bool operator==(const ChangeRow&, const ChangeRow&) = default;
};

std::string encode(const ChangeHead& head);
std::string encode(const ChangeRow& row);
// nullopt: damaged.
std::optional<ChangeHead> decode_change_head(std::string_view bytes);
std::optional<ChangeRow> decode_change_row(std::string_view bytes);

}  // namespace lsmfs
