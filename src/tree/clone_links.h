// LsmTree::Copying: the rows of directories that a clone copies by their entries (clone_links.cc). They are put into the open group, and taken
// out again unless apply() follows, which changes what is in memory.
//
// What it is not: it chooses no directories, and makes no inodes. Must hold while one lives: the tree's lock, and that all is committed and
// has been read (know_links).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tree/lsm_tree.h"

namespace lsmfs {

// What is known of such names below a directory.
struct LsmTree::Linked {
  std::uint64_t as_of = UINT64_MAX;                // below_changes_, when they were looked for
  std::map<std::string, NamesRows> homes;          // of directories below which there are some, with their entries
  std::vector<std::pair<Ino, std::string>> files;  // that have these names, in order, with the rows of their records
  std::uint64_t settled = 0;                       // the last group that was settled, when the rows were read
  Result<void> outcome;                            // of a look
};

class LsmTree::Copying {
 public:
  Copying(LsmTree& tree, const Lock& lock, const Linked& linked, Ino first_number) LSMFS_LOCKED
      : tree_(tree), lock_(lock), linked_(linked), next_(first_number) {}
  ~Copying() LSMFS_LOCKED;
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;
  // The entries of directory `dir`, which lie at `home`, and what lies below, for a copy whose entries are to lie at `to`.
  Result<void> add_all(Ino dir, const std::string& home, const std::string& to) LSMFS_LOCKED;
  std::size_t bytes() const { return bytes_; }
  void apply() LSMFS_LOCKED;

 private:
  struct Name {
    Ino ino;
    const std::string *dir, *name;  // the former is the home of a copy
  };
  static constexpr std::size_t kRowBytes = 32;  // beside a key and a value

  // One that is copied by its entries.
  struct Directory {
    Ino number;                // 0: it is not in memory, and neither is what it has
    std::string home, copied;  // where its entries lie, and where those of the copy are to lie
  };
  Result<void> add(const Directory& dir) LSMFS_LOCKED;
  Result<void> add(const Directory& dir, const std::string& name, Record record) LSMFS_LOCKED;
  Result<void> add_links() LSMFS_LOCKED;
  Ino next();
  static bool is_far(const Record& record, const std::string& dir, std::string_view name);
  Record new_record(const Record& of);
  void finish(Record& copy, const std::string& home, const XattrRows& xattrs) LSMFS_LOCKED;
  void share(const Inode* known, const std::string& key, Record& record) LSMFS_LOCKED;
  void put_user(const std::string& base, Ino user) LSMFS_LOCKED;
  void put(const std::string& key, const std::string& value) LSMFS_LOCKED;

  LsmTree& tree_;
  const Lock& lock_;
  const Linked& linked_;
  Ino next_;
  bool puts_ = false;  // the open group has rows that are taken out again
  std::vector<std::string> erased_;
  std::vector<std::pair<Ino, Record>> changes_;  // directories in memory
  std::vector<Ino> shared_;                      // files in memory that get one more user
  std::vector<Directory> left_;                  // to be added
  std::deque<std::string> homes_;                // of copies of directories
  std::vector<Name> links_;
  TreeCounts counts_;  // how many more there are; displaced: but for those that are in memory
  std::size_t bytes_ = 0;
};

}  // namespace lsmfs
