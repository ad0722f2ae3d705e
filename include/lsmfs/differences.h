// differences: what two directories of one tree have below them that is not the same, as the rows of names tell it.
//
// Two files have the same contents if they have all their data in common: as clones and snapshots of one file do, until one of them is written.
// So no data is read, and a file that was written over with the same bytes differs. All that both directories show of one base is the same, and
// is passed over without a look. So the cost is that of what differs, and of the entries of the directories on the way to it. Trees that have
// nothing in common can be compared, too, at the cost of both.
//
// What else is compared: types, sizes, targets of symbolic links, numbers of devices; and as attributes mode, owner, group, flags, extended
// attributes, and of what is no directory the time of change of contents. Not compared, unless that is asked for: other times, how many names a file
// has. Never: inode numbers, times of change of status and of making.
//
// The tree tells differences in steps, each as of one moment, and keeps nothing between them. Who asks puts them together, and finds renames.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs {

// How much a step may be: bytes that it takes when it is encoded, and rows that are read for it, or a few more, since it keeps tables that have
// been replaced.
struct DifferencesMost {
  std::size_t room = 16000;
  std::uint64_t rows = 65536;
};

// What is asked of two directories. Paths are relative, without a slash at either end; "" is the directory itself.
struct DifferencesAsked {
  std::optional<std::string> a, b;  // what is to be compared: in the first directory, and in the second. nullopt, of one: nothing is to be
                                    // compared with the other, of which all that lies below is told
  std::string from;                 // DifferencesStep::next of the step before; "": from the beginning
  bool exact = false;               // times of directories, times of access and how many names a file has are compared, too
  bool only_data = false;           // of two files: nothing is told but which blocks of them are the same
  bool only_linked = false;         // of one directory: nothing is told but names of files that have several; as `added` or `removed`
  DifferencesMost most{};           // whoever answers says so
};

// Of what was asked. In the order of a walk: a directory comes before what lies in it, and names in ascending byte order.
struct FoundDifference {
  enum class Kind : std::uint8_t { added, removed, contents, attributes };
  Kind kind = Kind::added;
  bool was_directory = false, is_directory = false;  // in the first one, and in the second
  std::string path;      // from what was asked on
  Ino number;            // added, removed: by which a rename shows
  Ino data;              // likewise: of the home of what it has; 0: it has nothing
  friend bool operator==(const FoundDifference&, const FoundDifference&) = default;
};

// Of two files: they have these blocks in common.
struct SameBlocks {
  BlockIndex first;
  std::uint64_t count = 0;
  friend bool operator==(const SameBlocks&, const SameBlocks&) = default;
};

struct DifferencesStep {
  std::vector<FoundDifference> found;
  std::vector<SameBlocks> same{};     // only_data: in order; others may be the same as well
  std::vector<std::uint64_t> shifts;  // by which numbers in the second differ from those of the same inodes in the first; some of them
  std::string next;                   // where to go on
  bool ended = false;                 // that was all
};

std::string encode(const DifferencesAsked& asked);
std::string encode(const DifferencesStep& step);
// nullopt: damaged.
std::optional<DifferencesAsked> decode_asked(std::string_view bytes);
std::optional<DifferencesStep> decode_step(std::string_view bytes);

// A difference as people are told.
struct Difference {
  enum class Kind : std::uint8_t {
    added,       // there is nothing of that name in the first
    removed,     // nor in the second
    contents,    // the type or the contents are others
    attributes,  // only the attributes are
    renamed,     // it is the same inode; how it differs is told beside
  };
  Kind kind = Kind::added;
  bool is_directory = false;  // where the path leads to
  std::string path;           // removed: from the first directory on; else from the second. "": that itself
  std::string old;            // renamed: from the first on
  friend bool operator==(const Difference&, const Difference&) = default;
};

using AskDifferences = std::function<Result<DifferencesStep>(const DifferencesAsked& asked)>;
enum class OneSided : std::uint8_t { as_one, all };  // a directory that only one side has: alone, or with all that lies below
// All differences, by path: a directory comes right before what lies in it. A renamed inode is found if its number or what it has tells that it
// is the same, and neither name lies in a directory that only one side has. Errors: those of `ask`.
Result<std::vector<Difference>> find_differences(const AskDifferences& ask, OneSided one_sided);

}  // namespace lsmfs
