// What the rows of a tree say, as a pass over all of them has found it: what check_tree() judges and repair_tree() mends by.
//
// A home ends in a number that no other one has, so each row names the record it belongs to, and what is kept of a record is a few
// numbers and checksums. Inodes go by these numbers, and not by their own: what a clone shows may have those of what it was made of.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tree/file_blobs.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs {

struct TreeFacts {
  // An inode: what its record says, and what other rows have said of it.
  struct Inode {
    enum class Place : std::uint8_t { top, named, linked, orphan } place = Place::named;
    // Of directories: from the root or the directory of snapshots, from a base that no directory has any more, or not at all.
    enum class Reach : std::uint8_t { unknown, asked, yes, frozen, no } reach = Reach::unknown;
    std::uint32_t mode = 0, nlink = 0;
    std::uint64_t size = 0, blocks = 0;
    std::uint64_t row = 0, home = 0;  // checksums: of its record's key, and of its home
    Ino ino;
    bool is_base = false;             // as its record says
    bool has_base = false;            // the same
    bool has_xattr_rows = false;      // the same
    bool has_own = false;             // with a base: what it must not have, entries or data under its own home
    Ino parent;                       // named: the number of the directory whose entry has the record
    std::uint64_t names = 0;          // linked: rows that link to it
    std::uint64_t entries = 0, subdirectories = 0;
    std::uint64_t rows = 0;           // of data
    std::uint64_t blob_blocks = 0;    // as its record says
    std::uint64_t in_blobs = 0;       // blocks

    bool is_directory() const { return S_ISDIR(mode); }
  };
  // The entries of a directory.
  struct Directory {
    std::string home;
    Ino number;  // in it
    std::uint64_t entries = 0, subdirectories = 0;
  };
  // A file's data.
  struct File {
    std::string home;
    Ino number;
    std::uint64_t rows = 0, end = 0;  // the latter in bytes: where its last row ends
  };
  // Large extended attributes: (name, size of the value), in the order of names.
  using XattrRows = std::vector<std::pair<std::string, std::uint64_t>>;

  // A base without a record.
  struct Node {
    lsmfs::Node row;
    std::uint64_t rows = 0;      // of data
    std::uint64_t in_parts = 0;  // blocks
    std::uint64_t entries = 0, subdirectories = 0;
  };
  // What a record says to have one; the number is that of `home`.
  struct Base {
    std::string home;
    Ino number;
    std::uint64_t shift = 0;
  };
  // A name that is a link.
  struct Name {
    Ino directory, ino;  // the number of the former, and the inode's own
  };

  // nullptr: there is none.
  Inode* of_number(Ino number) {
    const auto at = inodes.find(number);
    return at != inodes.end() ? &at->second : nullptr;
  }
  // Of several names: its number.
  std::optional<Ino> linked_number(Ino ino) {
    const auto is_it = [&](Ino number) {
      const Inode* const inode = of_number(number);
      return inode && inode->ino == ino && inode->place == Inode::Place::linked;
    };
    if (is_it(ino)) return ino;
    for (auto [at, end] = moved.equal_range(ino); at != end; ++at) {
      if (is_it(at->second)) return at->second;
    }
    return std::nullopt;
  }
  Node* node_at(Ino number, std::string_view home, bool directory) {
    const auto at = nodes.find(number);
    return at != nodes.end() && at->second.row.home == home && at->second.row.directory == directory ? &at->second : nullptr;
  }
  Node* file_node_at(Ino number, std::string_view home) { return node_at(number, home, false); }
  Node* directory_node_at(Ino number, std::string_view home) { return node_at(number, home, true); }
  // Whether a base that no record has any more leads to it. Must hold: it is known of all directories what leads to them.
  bool is_frozen(const Inode& inode) {
    if (inode.is_directory()) return inode.reach == Inode::Reach::frozen;
    if (inode.place != Inode::Place::named) return false;
    return is_frozen_directory(inode.parent);
  }
  bool is_frozen_directory(Ino number) {
    const Inode* const inode = of_number(number);
    return inode ? inode->reach == Inode::Reach::frozen : nodes.contains(number);
  }
  // Blocks of what has parts by that number, as far as they lie over too many bases, or in a circle.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> too_deep(Ino number) const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    add_too_deep(number, 0, UINT64_MAX, 0, 0, found);
    return found;
  }
  // The record of a directory that lies at `home`; nullptr: there is none.
  Inode* directory_at(Ino number, std::string_view home) {
    Inode* inode = at_home(number, home);
    return inode && inode->is_directory() ? inode : nullptr;
  }
  Inode* file_at(Ino number, std::string_view home) {
    Inode* inode = at_home(number, home);
    return inode && S_ISREG(inode->mode) ? inode : nullptr;
  }
  // What there is at the home of an inode that has a record; nullptr: nothing.
  const XattrRows* xattr_rows_of(Ino number) const {
    const auto rows = xattr_rows.find({number, inodes.at(number).home});
    return rows != xattr_rows.end() ? &rows->second : nullptr;
  }
  Inode* at_home(Ino number, std::string_view home) {
    Inode* const inode = of_number(number);
    return inode && inode->home == checksum(home) ? inode : nullptr;
  }

  bool state_seen = false;
  std::optional<Ino> root;  // the number of its home, if it has a record
  std::optional<State> state;
  TreeCounts counts;  // records that have a name
  std::unordered_map<Ino, Inode> inodes;  // by the numbers of their homes, as is all below that is not said to be of inodes
  std::multimap<Ino, Ino> moved;          // the numbers of homes by inodes, where these have another one
  std::map<Ino, Node> nodes;
  std::map<Ino, Base> bases;              // of records that have one
  std::set<Ino> circles;                  // records whose base would show themselves
  std::map<std::pair<Ino, Ino>, bool> users;  // bases with their users, as rows say; whether they show the base
  std::vector<Name> names;                              // links
  std::unordered_map<Ino, std::uint32_t> link_types;    // by inode
  std::set<Ino> twins;                                  // records to be used whose inode, which was counted up, has another one
  std::set<Ino> same_views;                             // directories to be used whose base another one has, with the same shift
  std::unordered_map<Ino, XattrRows> xattrs;                        // what records name
  std::map<std::pair<Ino, std::uint64_t>, XattrRows> xattr_rows;    // what there is, by number and checksum of the home
  std::map<Ino, FileBlobs> blobs;
  // Blocks [from, to) of files, as far as they lie in parts: they cannot be read there, or are not wanted.
  std::map<Ino, std::vector<std::pair<std::uint64_t, std::uint64_t>>> unreadable;
  std::vector<Directory> directories;
  // Of directories and files that have no record.
  std::vector<Directory> stray_directories;
  std::vector<File> stray_files;

 private:
  // Of blocks [from, to), which are `shift` further than in what was asked for.
  void add_too_deep(Ino number, std::uint64_t from, std::uint64_t to, std::uint64_t shift, int depth,
                    std::vector<std::pair<std::uint64_t, std::uint64_t>>& found) const {
    const auto parts = blobs.find(number);
    if (parts == blobs.end() || parts->second.empty()) return;
    for (const FileBlobs::Run& run : parts->second.runs(from, std::min(to, parts->second.parts().back().past()))) {
      if (!run.part || !run.part->shared()) continue;
      const std::uint64_t at = run.from - run.part->first + run.part->from;
      if (depth == FileBlobs::kDepthMost) {
        found.emplace_back(run.from - shift, run.to - shift);
      } else {
        add_too_deep(*keys::number_of(run.part->base), at, at + (run.to - run.from), shift + at - run.from, depth + 1, found);
      }
    }
  }
};

}  // namespace lsmfs
