// InodeTable: the inodes that somebody holds on to, by number, and those with one name by that as well: an operation on a name
// that the kernel knows reads no row.
//
// An inode in the table is the truth about itself: its record is what the last commit wrote, or newer.
// It tells how much memory they take, so that a cache can make room for them, and which were used the longest time ago, when
// they take more than that: whoever holds on to them decides whether they go.
// What it is not: it reads and writes no rows. Not thread-safe, but for crowded(): the tree's mutex guards it and all
// inodes in it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tree/dir_cookies.h"
#include "tree/keys.h"
#include "tree/record.h"
#include "tree/row_map.h"
#include "tree/streams.h"
#include "tree/tree_lock.h"
#include "tree/use_order.h"

namespace lsmfs {

// The inodes of a directory share its home, which in a deep tree is longer than all else in them.
using SharedHome = std::shared_ptr<const std::string>;

struct Inode : UseLink {
  struct Name {
    Ino dir;
    SharedHome dir_home;
    std::string name;
  };
  enum class Place : std::uint8_t {
    named,   // the record is in the entry of its only name
    linked,  // the record is in a row of its own; the entries are links to it
    orphan,  // no name: the record is in an orphan row, if it has a row at all
  };

  Record record;
  Place place = Place::named;
  bool read_only = false;        // a snapshot, or lies in one: nothing of it changes
  bool implicit = false;         // named: it has no row of its own, but is what its directory shows (clones.cc); nothing of it changes
  std::unique_ptr<const std::string> shown_home;  // implicit: where its attributes have rows, if it has such
  std::uint64_t as_of = 0;       // it knows of changes to directories above it, as LsmTree::layouts_ counts
  bool has_row = false;          // orphan: a commit has written its row
  bool linkable = false;         // orphan: it was made without a name, and may get one
  std::uint32_t directories = 0;  // staged: how many are in it, which its link count says later
  bool displaced = false;        // the tree's counts have it among those
  bool offered = false;          // least_used() has given it, and nobody has used it since
  // The last groups that change its record, its blocks, (a directory) its entries, and the rows of its
  // extended attributes.
  std::uint64_t record_group = 0, blocks_group = 0, entries_group = 0, xattrs_group = 0;
  std::uint64_t shared_group = 0;  // the last one that let others share its blocks
  std::uint64_t home_group = 0;  // the last one that gave all rows below it another home
  std::uint64_t told = 0;        // when the log of changes was last told of it, as ChangeNotes::moment() counts
  std::uint64_t lookups = 0;
  std::uint64_t moved = 0;       // when its blocks last got another home, as LsmTree::moves_ counts
  Ino parent;                    // the directory it was last found in
  Ino holds{};                   // named: the directory that it holds on to itself, where the kernel does not know that name
  SharedHome dir_home;           // named: home of that directory
  std::string name;              // named: the name in it. In the table these three change by set_name() and clear_name() only
  std::vector<Name> names;       // linked: all of them, or none when they are not all known
  std::uint64_t reached_as_of = 0;  // it led to the root when so many trees had been removed, as LsmTree::removals_ counts
  SharedHome own_home;           // a directory: home() when it was asked for; reset when that changes
  std::unique_ptr<DirCookies> cookies;
  std::unique_ptr<RowMap> rows;  // a sparse file's, if they are known
  std::unique_ptr<LargeFile> large;  // a file's blobs, if they are known

  Ino ino() const { return record.ino; }
  bool removed() const { return place == Place::orphan; }
  // A directory in which things are made before it has its name.
  bool is_staged() const { return removed() && linkable && record.is_directory(); }
  void count_directory(int by) {  // that comes into it or leaves it
    if (removed()) directories += static_cast<std::uint32_t>(by);
    else record.nlink += static_cast<std::uint32_t>(by);
  }
  // A directory that was removed with what lies below it, as long as something is in it.
  bool is_removed_tree() const { return removed() && record.is_directory() && record.size > 0 && !record.has_base(); }

  // The root, or the directory of snapshots: its record has a row of its own, and nobody forgets or removes it.
  bool is_top() const { return ino() == kRootIno || ino() == kSnapshotsIno; }
  // Where its children or blocks lie, unless it has a base.
  std::string home() const {
    if (!record.home.empty() || is_top()) return record.home;
    return keys::child_home(*dir_home, name, record.number());
  }
  // Where the rows are of its entries or blocks, and of its attributes; and the number of the former.
  std::string data_home() const { return record.has_base() ? *record.base : home(); }
  Ino data_number() const { return record.has_base() ? *keys::number_of(*record.base) : record.number(); }
  std::string xattr_home() const { return implicit ? shown_home ? *shown_home : std::string() : home(); }
  const SharedHome& shared_home() {
    if (!own_home) own_home = std::make_shared<const std::string>(home());
    return own_home;
  }
  // Whether that is elsewhere than its only name says.
  bool lies_elsewhere() const { return place == Place::named && !is_top() && !record.home.empty(); }
  // The key of its record.
  std::string row_key() const {
    switch (place) {
      case Place::named: return ino() == kRootIno ? std::string(keys::kRoot) : ino() == kSnapshotsIno ? std::string(keys::kSnapshots) : keys::entry(*dir_home, name);
      case Place::linked: return keys::linked(ino());
      case Place::orphan: break;
    }
    return keys::orphan(ino());
  }
};

class InodeTable {
 public:
  // Of an inode with its name, on average: 47 MB with the 90,000 of the Linux source.
  static constexpr std::uint64_t kInodeMemory = 520;

  // There should not be more of them than fit into `room`. `tell` hears of the memory of all each time when it has changed
  // by some.
  InodeTable(ByteCount room, std::function<void(ByteCount)> tell) : most_(room.v / kInodeMemory), tell_(std::move(tell)) {}

  Inode* find(Ino ino) {
    auto it = inodes_.find(ino);
    return it == inodes_.end() ? nullptr : &it->second;
  }
  const Inode* find(Ino ino) const { return const_cast<InodeTable*>(this)->find(ino); }
  // The inode whose only name is `name` in this directory, if it is in the table.
  Inode* find(Ino dir, std::string_view name) {
    const auto it = named_.find(Name{dir, name});
    return it == named_.end() ? nullptr : *it;
  }
  // Must hold: no inode of this number is there.
  Inode& insert(Inode&& inode) {
    const Ino ino = inode.ino();
    assert(!find(ino));
    Inode& inserted = inodes_.emplace(ino, std::move(inode)).first->second;
    if (!inserted.name.empty()) add_name(inserted);
    order_.add(inserted);
    count();
    return inserted;
  }
  void erase(Ino ino) {
    const auto it = inodes_.find(ino);
    if (it == inodes_.end()) return;
    take_name(it->second);
    if (it->second.offered) --offered_;
    order_.remove(it->second);
    inodes_.erase(it);
    count();
  }
  // Gives an inode of the table its only name, also in place of another inode that had it.
  void set_name(Inode& inode, Ino dir, SharedHome dir_home, std::string_view name) {
    take_name(inode);
    inode.place = Inode::Place::named;
    inode.parent = dir;
    inode.dir_home = std::move(dir_home);
    inode.name = name;
    add_name(inode);
  }
  // It is found by no name from now on: it has several, or none.
  void clear_name(Inode& inode, Inode::Place place) {
    take_name(inode);
    inode.place = place;
    inode.dir_home.reset();
    inode.name.clear();
  }
  template <class F>
  void for_each(F&& f) LSMFS_LOCKED {
    for (auto& [ino, inode] : inodes_) f(inode);
  }
  std::size_t size() const { return inodes_.size(); }

  // Somebody has asked for it just now.
  void used(Inode& inode) {
    order_.renew(inode);
    if (!inode.offered) return;
    inode.offered = false;
    --offered_;
    count();
  }
  // Whether there are too many, not counting those that have been offered. From any thread.
  bool crowded() const { return crowded_; }
  // When it is: those that were used the longest time ago, and that somebody holds on to, so many that an eighth of the room is
  // free without them, or kOfferedAtOnce. They are offered now.
  std::vector<Ino> least_used() {
    std::vector<Ino> found;
    if (!crowded_) return found;
    const std::size_t enough = most_ - std::min(most_ / 8, kOfferedAtOnce);
    // Not all of them are looked at when few can be given.
    for (std::size_t left = 2 * (inodes_.size() - enough); left > 0 && inodes_.size() - offered_ > enough; --left) {
      auto& inode = static_cast<Inode&>(order_.oldest());
      order_.renew(inode);
      if (inode.lookups == 0 || inode.is_top()) continue;
      found.push_back(inode.ino());
      if (inode.offered) continue;
      inode.offered = true;
      ++offered_;
      count();
    }
    return found;
  }

 private:
  static constexpr std::size_t kTold = 4096;  // inodes
  static constexpr std::size_t kOfferedAtOnce = 32768;

  struct Name {
    Ino dir;
    std::string_view name;
    friend bool operator==(const Name&, const Name&) = default;
  };
  static Name name_of(const Name& name) { return name; }
  static Name name_of(const Inode* inode) { return {inode->parent, inode->name}; }
  struct NameHash {
    using is_transparent = void;
    std::size_t operator()(const auto& of) const {
      const Name name = name_of(of);
      return checksum(name.name, name.dir.v);
    }
  };
  struct NameEqual {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return name_of(a) == name_of(b); }
  };

  void add_name(Inode& inode) {
    const auto [it, added] = named_.insert(&inode);
    if (added) return;
    named_.erase(it);
    named_.insert(&inode);
  }
  void take_name(Inode& inode) {
    if (inode.name.empty()) return;
    const auto it = named_.find(&inode);
    if (it != named_.end() && *it == &inode) named_.erase(it);
  }

  void count() {
    const std::size_t now = inodes_.size();
    const bool crowded = now - offered_ > most_;
    if (crowded != crowded_) crowded_ = crowded;
    if (now < told_ + kTold && told_ < now + kTold) return;
    told_ = now;
    tell_(ByteCount{now * kInodeMemory});
  }

  std::unordered_map<Ino, Inode> inodes_;  // whose elements stay where they are
  std::unordered_set<Inode*, NameHash, NameEqual> named_;
  UseOrder order_;                         // of all of them
  std::size_t offered_ = 0;                // how many of them are
  const std::size_t most_;                 // how many there should be
  std::atomic<bool> crowded_{false};
  std::function<void(ByteCount)> tell_;
  std::size_t told_ = 0;  // inodes
};

}  // namespace lsmfs
