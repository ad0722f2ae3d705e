// LsmTree::Copying: the rows of directories that a clone copies by their entries (clone_links.cc). First all is looked up, which may fail, and
// then all is put into the open group.
//
// What it is not: it chooses no directories, and makes no inodes. Must hold while one lives: the tree's lock, and that all is committed.
#pragma once

#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tree/lsm_tree.h"

namespace lsmfs {

// What look_for_links() has found.
struct LsmTree::Linked {
  std::uint64_t as_of = 0;  // below_changes_
  std::unordered_set<std::string> homes;
};

class LsmTree::Copying {
 public:
  Copying(LsmTree& tree, const Lock& lock, const Linked& linked, Ino first_number) LSMFS_LOCKED
      : tree_(tree), lock_(lock), linked_(linked), next_(first_number) {}
  // The entries of directory `dir`, which lie at `home`, and what lies below, for a copy whose entries are to lie at `to`.
  Result<void> add(Ino dir, const std::string& home, const std::string& to) LSMFS_LOCKED;
  Result<void> add_links() LSMFS_LOCKED;  // when all directories have been added
  std::size_t bytes() const { return bytes_; }
  void apply() LSMFS_LOCKED;

 private:
  struct Name {
    std::string dir, name;  // the former is a home
  };
  // A record of what is copied.
  struct Change {
    Ino ino;  // 0: it is not in memory
    std::string key;
    Record record;
  };
  static constexpr std::size_t kRowBytes = 32;  // beside a key and a value

  Result<void> add(Ino dir, const std::string& home, const std::string& to, const std::string& name, Record record) LSMFS_LOCKED;
  Ino next();
  static bool is_far(const Record& record, const std::string& dir, std::string_view name);
  Record new_record(const Record& of);
  void finish(Record& copy, const std::string& home, const XattrRows& xattrs);
  void put_user(const std::string& base, Ino user);
  void put(std::string key, std::string value);

  LsmTree& tree_;
  const Lock& lock_;
  const Linked& linked_;
  Ino next_;
  std::vector<std::pair<std::string, std::string>> puts_;
  std::vector<std::string> erased_;
  std::vector<Change> changes_;
  std::map<Ino, std::vector<Name>> links_;
  std::vector<Record> counted_;  // of copies, as far as that needs
  std::uint64_t elsewhere_ = 0;  // how many more have an explicit home, of those that are not in memory
  std::size_t bytes_ = 0;
};

}  // namespace lsmfs
