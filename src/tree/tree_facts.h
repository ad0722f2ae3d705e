// What the rows of a tree say, as a pass over all of them has found it: what check_tree() judges and repair_tree() mends by.
//
// A home ends in its inode's number, so each row names the inode it belongs to, and what is kept of an inode is a few
// numbers and checksums.
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
    enum class Place : std::uint8_t { root, named, linked, orphan } place = Place::named;
    enum class Reach : std::uint8_t { unknown, asked, yes, no } reach = Reach::unknown;
    std::uint32_t mode = 0, nlink = 0;
    std::uint64_t size = 0, blocks = 0;
    std::uint64_t row = 0, home = 0;  // checksums: of its record's key, and of its home
    Ino number;                       // in its home
    bool is_base = false;             // as its record says
    bool has_xattr_rows = false;      // the same
    Ino parent;                       // named: the directory whose entry has the record
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
    Ino ino;
    std::uint64_t entries = 0, subdirectories = 0;
  };
  // A file's data.
  struct File {
    std::string home;
    Ino ino;
    std::uint64_t rows = 0, end = 0;  // the latter in bytes: where its last row ends
  };
  // Large extended attributes: (name, size of the value), in the order of names.
  using XattrRows = std::vector<std::pair<std::string, std::uint64_t>>;

  // A base without a file.
  struct Node {
    lsmfs::Node row;
    std::uint64_t rows = 0;      // of data
    std::uint64_t in_parts = 0;  // blocks
  };

  // By the number in its home; nullptr: there is none.
  Inode* of_number(Ino number) {
    const auto moved = numbers.find(number);
    const auto at = inodes.find(moved == numbers.end() ? number : moved->second);
    return at != inodes.end() && at->second.number == number ? &at->second : nullptr;
  }
  Node* node_at(Ino number, std::string_view home) {
    const auto at = nodes.find(number);
    return at != nodes.end() && at->second.row.home == home ? &at->second : nullptr;
  }
  // How many bases lie over each other below what has parts by these numbers; those that are not there: too many, or in a circle.
  std::map<Ino, int> depths() const {
    std::map<Ino, std::vector<Ino>> open;
    std::map<Ino, int> known;
    for (const auto& [number, parts] : blobs) {
      std::vector<Ino> bases;
      for (const std::string& home : parts.bases()) bases.push_back(*keys::number_of(home));
      if (bases.empty()) known.emplace(number, 0);
      else open.emplace(number, std::move(bases));
    }
    const auto is_below = [&](Ino base, int depth) {
      const auto at = known.find(base);
      return at == known.end() ? !open.contains(base) : at->second < depth;
    };
    for (int depth = 1; depth <= FileBlobs::kDepthMost && !open.empty(); ++depth) {
      for (auto at = open.begin(); at != open.end();) {
        const bool settled = std::ranges::all_of(at->second, [&](Ino base) { return is_below(base, depth); });
        if (settled) known.emplace(at->first, depth);
        at = settled ? open.erase(at) : std::next(at);
      }
    }
    return known;
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
  const XattrRows* xattr_rows_of(Ino ino) const {
    const Inode& inode = inodes.at(ino);
    const auto rows = xattr_rows.find({inode.number, inode.home});
    return rows != xattr_rows.end() ? &rows->second : nullptr;
  }
  Inode* at_home(Ino number, std::string_view home) {
    Inode* const inode = of_number(number);
    return inode && inode->home == checksum(home) ? inode : nullptr;
  }

  bool state_seen = false;
  std::optional<State> state;
  TreeCounts counts;  // inodes that have a name
  std::unordered_map<Ino, Inode> inodes;
  std::unordered_map<Ino, Ino> numbers;  // inodes by the numbers in their homes, where these are not their own
  std::map<Ino, Node> nodes;             // by these numbers, as is all below that is of homes
  std::set<std::pair<Ino, Ino>> users;   // bases with their users, as rows say
  std::unordered_map<Ino, std::uint64_t> links;      // names that are links, by what they link to
  std::unordered_map<Ino, std::uint32_t> link_types;
  std::unordered_map<Ino, XattrRows> xattrs;                        // what records name, by inode
  std::map<std::pair<Ino, std::uint64_t>, XattrRows> xattr_rows;    // what there is, by number and checksum of the home
  std::map<Ino, FileBlobs> blobs;
  // Blocks [from, to) of files, as far as they lie in parts: they cannot be read there, or are not wanted.
  std::map<Ino, std::vector<std::pair<std::uint64_t, std::uint64_t>>> unreadable;
  std::vector<Directory> directories;
  // Of directories and files that have no record.
  std::vector<Directory> stray_directories;
  std::vector<File> stray_files;
};

}  // namespace lsmfs
