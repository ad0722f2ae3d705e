// Rollbacks: a directory gets what a snapshot has, in one batch.
//
// What it had goes to an orphan, as of a removed tree (remove_tree.cc), which takes over its home and, where it shows one, its base. So a sweep
// takes that away, or the background that drops bases, and a mount after a crash goes on with it. The directory itself stays the inode that it
// is. It gets another home, with another number, and shows there what the snapshot shows, as a clone does (clones.cc).
//
// Who is in use below goes on in the orphan. The kernel knows nothing of that, so each of the former children holds on to it by itself. What
// sweeps tell of them names the orphan. So who asks for a rollback tells the kernel of their names at once.
//
// An orphan has no empty home. The root has one until it has left what it had to a snapshot. So it does that first. Where the volume has files
// of several names, which no base can have, its entries move to the orphan instead.
#include <fmt/format.h>

#include <utility>

#include "tree/clone_links.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

// What has been looked for without the lock.
struct LsmTree::RollingBack {
  Linked linked;
  std::optional<std::uint64_t> nothing_fixed;  // below_changes_
};

Result<std::vector<SweptEntry>> LsmTree::roll_back(Ino dir, Ino snapshot, Wait wait) {
  RollingBack known;
  for (int looks = 0;; ++looks) {
    LSMFS_ASSIGN(auto gone, attempt(wait, [&](Lock& lock) LSMFS_LOCKED { return put_back(lock, wait, dir, snapshot, known); }, Turns::alone));
    if (gone) return *std::move(gone);
    if (wait == Wait::no || looks == kLooksMost) return make_error(EAGAIN, "");
    LSMFS_ASSIGN(known.nothing_fixed, look_for_fixed(dir));
  }
}

bool LsmTree::in_use(Ino dir, std::string_view name) {
  const Lock lock(mutex_);
  const Inode* const known = inodes_.find(dir, name);
  return known && known->lookups > 0;
}

// Files of several names are not known by these.
bool LsmTree::somebody_uses_linked() {
  bool used = false;
  inodes_.for_each([&](const Inode& inode) LSMFS_LOCKED { used |= inode.place == Inode::Place::linked && inode.lookups > 0; });
  return used;
}

// nullopt: it has first to be looked whether something below is immutable or append-only.
Result<std::optional<std::vector<SweptEntry>>> LsmTree::put_back(Lock& lock, Wait wait, Ino dir_ino, Ino snapshot, RollingBack& known) {
  LSMFS_TRY(begin_change(lock, wait));
  LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
  LSMFS_ASSIGN(Inode * from, find_directory(snapshot));
  if (!from->record.snapshot_of) return make_error(EINVAL, "");
  if (dir_ino == kSnapshotsIno) return make_error(EROFS, "");
  LSMFS_TRY(may_change(*dir));
  if (state_.counts.fixed > 0 && dir->record.size > 0 && known.nothing_fixed != below_changes_) return std::optional<std::vector<SweptEntry>>();
  if (state_.next_ino.v + 4 >= kSnapshotsIno.v) return make_error(ENOSPC, "");
  const Loaded dir_loaded{*this, dir}, from_loaded{*this, from};
  LSMFS_TRY(own_row(lock, *dir, Expands::to_free));
  end_streams();
  LSMFS_TRY(settle(lock, open_group().empty() ? open_group().number - 1 : open_group().number));
  const bool is_shown = from->record.size == 0 || from->record.has_base();
  if (!is_shown) LSMFS_TRY(know_links(lock, *from, known.linked));
  LSMFS_ASSIGN(const XattrRows xattrs, xattr_rows(lock, from->record, from->xattr_home()));

  // Of what it has, all is known by name that somebody holds on to, but files of several names.
  const bool has_own = dir->record.size > 0 && !dir->record.has_base();
  LSMFS_ASSIGN(const bool any_linked, rows_.has_linked(lock));
  NamesRows rows;
  const bool has_empty_home = dir->home().empty();
  if (has_own && any_linked && (has_empty_home || somebody_uses_linked())) {
    LSMFS_ASSIGN(rows, rows_.entries(lock, dir->home(), "", SIZE_MAX));
  }
  XattrRows own_xattrs;
  std::size_t bytes = 0;  // for the group, but for what a removal takes
  if (has_empty_home) {
    LSMFS_ASSIGN(own_xattrs, xattr_rows(lock, dir->record, ""));
    for (const auto& [key, row] : rows) {
      if (!decode_entry(row)) return make_error(EUCLEAN, "the row of an entry is damaged");
      bytes += 2 * (key.size() + row.size());
    }
    for (const auto& [name, value] : own_xattrs) bytes += name.size() + value.size();
  }

  Inode changes;  // what it becomes
  changes.record = from->record;
  changes.record.ino = dir_ino;
  changes.record.home.clear();
  changes.record.home_number = Ino{state_.next_ino.v + 1};
  changes.record.snapshot_of.reset();
  changes.record.btime = dir->record.btime;
  changes.dir_home = dir->dir_home;
  changes.name = dir->name;
  settle_far_away(changes);
  const bool copies = !is_shown && !known.linked.homes.empty();
  Copying copying(*this, lock, known.linked, Ino{state_.next_ino.v + 2});
  if (copies) LSMFS_TRY(copying.add_all(snapshot, from->home(), changes.home()));
  bytes += copying.bytes();
  for (const auto& [name, value] : xattrs) bytes += name.size() + value.size();
  if (bytes > 0) LSMFS_TRY(need_room_for_names(bytes + 2 * kRecordRoom));  // else it is as a removal, which is never refused

  const Time now = Time::now(clock_);
  ++below_changes_;
  ++removals_;
  const Ino to = state_.next_ino;
  state_.next_ino.v += 2;
  if (copies) copying.apply();
  else if (!is_shown) freeze(*from, xattrs);
  if (has_empty_home && has_own && !any_linked) freeze(*dir, own_xattrs);
  tell_below(*dir, "");
  changes_.notes().paths_changed();
  std::vector<SweptEntry> gone;
  Inode& old = leave_contents(*dir, to, rows, now, gone);

  count(dir->record, -1);  // its flags
  changes.record.base = from->record.base;
  if (changes.record.has_base()) changes.record.shift = drawn_shift();
  changes.record.ctime = now;
  dir->record = std::move(changes.record);
  count(dir->record, +1);
  dir->own_home.reset();
  const std::string home = dir->home();
  rows_.know_below(home);
  for (const auto& [name, value] : xattrs) rows_.put_xattr(home, name, value);
  if (dir->record.has_base()) rows_.put_user(*keys::number_of(*dir->record.base), dir->record.number(), true);
  dir->home_group = dir->entries_group = dir->xattrs_group = open_group().number;
  changed(*dir);
  if (dir->cookies) dir->cookies->changed("", false);
  absent_.dir = Ino{};
  ++layouts_;
  if (old.record.size > 0) {
    removed_trees_.push_front({to});
    upkeep_.removed_tree(clock_.now());
    look_again_in_time();
  }
  drop_if_unused(&old);
  return std::optional(std::move(gone));
}

// All that a directory has, and its attributes, are those of an orphan of the number `to` from then on. `rows`: its entries, where there may be
// files of several names among them. Adds those of its entries that somebody holds on to. Its own record is left for the caller to change.
Inode& LsmTree::leave_contents(Inode& dir, Ino to, const NamesRows& rows, const Time& now, std::vector<SweptEntry>& gone) {
  Inode made;
  Record& record = made.record;
  record = dir.record;
  record.ino = to;
  record.nlink = 0;
  record.home = dir.home();
  record.home_number = dir.record.number();
  touch(record, now);
  const bool moves = record.home.empty();
  if (moves) {
    record.home = keys::far_home(to);
    record.home_number = {};
    for (const Xattr& xattr : record.xattrs) {
      if (xattr.row_size > 0) rows_.erase_xattr("", xattr.name);
    }
    record.xattrs.clear();
  }
  made.place = Inode::Place::orphan;
  made.parent = dir.ino();
  made.as_of = layouts_;
  made.entries_group = dir.entries_group;
  made.home_group = moves ? open_group().number : dir.home_group;
  made.xattrs_group = dir.xattrs_group;
  Inode& old = inodes_.insert(std::move(made));
  if (moves) rows_.know_below(old.record.home);
  for (const auto& [key, row] : rows) {
    const std::string_view name = keys::entry_name(dir.home(), key);
    const auto entry = decode_entry(row);
    const auto* const link = entry ? std::get_if<Link>(&*entry) : nullptr;
    const Inode* const known = link ? inodes_.find(link->ino) : nullptr;
    if (known && known->lookups > 0) gone.push_back({dir.ino(), std::string(name), link->ino});
    if (moves) move_entry(dir.home(), old, name, row);
  }
  if (const auto built = builds_.find(dir.ino()); built != builds_.end()) {
    abandon(built->second);
    builds_.erase(built);
  }
  leave_children(dir, old, moves, gone);
  changed(old);
  return old;
}

// Those in memory that the directory `dir` has are in `to` from then on.
void LsmTree::leave_children(Inode& dir, Inode& to, bool moves, std::vector<SweptEntry>& gone) {
  std::vector<Inode*> children;
  inodes_.for_each([&](Inode& inode) LSMFS_LOCKED {
    for (Inode::Name& name : inode.names) {
      if (name.dir == dir.ino()) name.dir = to.ino(), name.dir_home = to.shared_home();
    }
    if (inode.parent == dir.ino() && !inode.removed() && !inode.is_top()) children.push_back(&inode);
  });
  for (Inode* const child : children) {
    if (child->place == Inode::Place::linked) {
      child->parent = to.ino();
      continue;
    }
    renew(*child);
    if (child->lookups > 0) gone.push_back({dir.ino(), child->name, child->ino()});
    let_go_of_directory(*child);
    child->holds = to.ino();
    ++to.lookups;
    if (moves) {
      child->record.home = child->record.has_rows_below() ? child->home() : "";
      child->own_home.reset();
      changed(*child);
    }
    inodes_.set_name(*child, to.ino(), to.shared_home(), std::string(child->name));
  }
}

// An entry whose row is `row` is one of `to`; what lies below it stays where it is. Must hold: the row is sound, and the rows are what counts.
void LsmTree::move_entry(const std::string& from, Inode& to, std::string_view name, const std::string& row) {
  auto entry = *decode_entry(row);
  rows_.erase_entry(from, name);
  if (auto* const record = std::get_if<Record>(&entry)) {
    const bool was_elsewhere = !record->home.empty();
    record->home = record->has_rows_below() ? record->home_in(from, name) : "";
    const bool is_known = inodes_.find(to.parent, name) != nullptr;  // then its record is put, and counted, as a change of it
    if (!is_known) state_.counts.displaced += static_cast<std::uint64_t>(!record->home.empty()) - static_cast<std::uint64_t>(was_elsewhere);
    rows_.put_entry(*to.shared_home(), name, encode(*record));
  } else {
    rows_.put_entry(*to.shared_home(), name, row);
  }
}

}  // namespace lsmfs
