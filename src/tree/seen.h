// Seen: an inode as it is seen by a path, from rows as they were at one moment: by a row of its own, or by that of a base.
//
// What it is not: it knows nothing of inodes in memory, and reads no data.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/differences.h"
#include "tree/names_view.h"

namespace lsmfs {

struct Seen {
  Record record;
  std::string home;        // where what it has lies: its entries, or its data
  std::string xattr_home;  // where its large attributes have rows, if it has such

  // Of directories: how entries are seen in it.
  bool shows_base() const { return record.has_base(); }
};

// What an entry of a directory is, whose row that is. Errors: those of the view.
Result<Seen> seen_in(NamesView& view, const Seen& directory, const std::string& name, const EntryRow& row);
// What lies at a path below a directory, "" being that itself. nullopt: nothing does. Errors: likewise.
Result<std::optional<Seen>> seen_at(NamesView& view, Seen directory, std::string_view path);

// Whether two files of one size have the same data, as far as rows of names tell: each block of one is the same as that of the other, or a hole
// in both. Errors: likewise.
Result<bool> have_same_data(NamesView& view, const Seen& a, const Seen& b);
// The blocks that lie in the same place in both, whatever their sizes, in order; next ones as one. Errors: likewise.
Result<std::vector<SameBlocks>> same_blocks(NamesView& view, const Seen& a, const Seen& b);
// Whether they have the same extended attributes. Errors: likewise.
Result<bool> have_same_xattrs(NamesView& view, const Seen& a, const Seen& b);

}  // namespace lsmfs
