// ReferredBytes: how much data all files below a directory have, as records say: what du(1) of it would add up.
//
// What several directories show is one base, and its names are read once. A base does not change, so what is known of one holds for as long as
// the tree is open, and serves the next snapshot.
//
// What it is not: it tells nothing of how much of that others have as well (freed_bytes.h). Not thread-safe.
//
// Memory: for each directory that shows a base some 100 bytes and its path, and the paths of directories beside the way to the one that is read.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lsmfs/base.h"
#include "tree/names_view.h"

namespace lsmfs {

class ReferredBytes {
 public:
  using Known = std::unordered_map<Ino, std::uint64_t>;  // blocks of all below a base, by its number

  ReferredBytes(NamesView& view, Known& known) : view_(view), known_(known) {}
  // Of the directory of that record, whose entries are at `home` unless it shows a base. Errors: those of the view.
  Result<ByteCount> below(const Record& directory, const std::string& home);

 private:
  static constexpr std::size_t kKnownMost = 65536;

  // What is below a home as far as it is not shown.
  struct Part {
    Ino number;
    std::uint64_t blocks = 0;
    std::vector<std::string> shown;  // bases; each as often as it is shown
    std::size_t next = 0;            // of these, the first that is not counted
  };
  Result<Part> read(const std::string& home);
  Result<void> add_entry(const std::string& home, const std::string& name, const EntryRow& row, Part& part, std::vector<std::string>& below);

  NamesView& view_;
  Known& known_;
  std::unordered_set<Ino> links_;  // files of several names that have been met
  std::unordered_set<Ino> far_;    // directories of the part that is read, whose homes are explicit: those of a damaged tree may lie in each other
};

}  // namespace lsmfs
