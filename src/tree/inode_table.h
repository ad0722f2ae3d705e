// InodeTable: the inodes that somebody holds on to, by number.
//
// An inode in the table is the truth about itself: its record is what the last commit wrote, or newer. What it is not: it reads and writes no rows. Not thread-safe: the
// tree's mutex guards it and all inodes in it.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "tree/dir_cookies.h"
#include "tree/keys.h"
#include "tree/record.h"

namespace lsmfs {

struct Inode {
  enum class Place : std::uint8_t {
    named,   // the record is in the entry of its only name
    linked,  // the record is in a row of its own; the entries are links to it
    orphan,  // no name: the record is in an orphan row, if it has a row at all
  };

  Record record;
  Place place = Place::named;
  bool has_row = false;          // orphan: a commit has written its row
  // The last groups that change its record, its blocks and (a directory) its entries.
  std::uint64_t record_group = 0, blocks_group = 0, entries_group = 0;
  std::uint64_t lookups = 0;
  Ino parent;                    // the directory it was last found in
  std::string dir_home;          // named: home of that directory
  std::string name;              // named: the name in it
  std::unique_ptr<DirCookies> cookies;

  Ino ino() const { return record.ino; }
  bool removed() const { return place == Place::orphan; }

  // Where its children or blocks lie.
  std::string home() const {
    if (!record.home.empty() || ino() == kRootIno) return record.home;
    return keys::child_home(dir_home, name, ino());
  }
  // The key of its record.
  std::string row_key() const {
    switch (place) {
      case Place::named: return ino() == kRootIno ? std::string(keys::kRoot) : keys::entry(dir_home, name);
      case Place::linked: return keys::linked(ino());
      case Place::orphan: break;
    }
    return keys::orphan(ino());
  }
};

class InodeTable {
 public:
  Inode* find(Ino ino) const {
    auto it = inodes_.find(ino);
    return it == inodes_.end() ? nullptr : it->second.get();
  }
  Inode& insert(std::unique_ptr<Inode> inode) {
    Inode& ref = *inode;
    inodes_[ref.ino()] = std::move(inode);
    return ref;
  }
  void erase(Ino ino) { inodes_.erase(ino); }
  template <class F>
  void for_each(F&& f) const {
    for (auto& [ino, inode] : inodes_) f(*inode);
  }
  std::size_t size() const { return inodes_.size(); }

 private:
  std::unordered_map<Ino, std::unique_ptr<Inode>> inodes_;
};

}  // namespace lsmfs
