// Lookup, forget and attributes; loading and saving of records.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "tree/acl.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

Error damaged(std::string_view what, Ino ino) {
  return make_error(EUCLEAN, fmt::format("{} of inode {} is damaged", what, ino.v));
}

}  // namespace

Result<Inode*> LsmTree::find(Ino ino) {
  if (Inode* inode = inodes_.find(ino)) {
    inodes_.used(*inode);
    renew(*inode);
    return inode;
  }
  return make_error(ESTALE, fmt::format("inode {} is not in use", ino.v));
}

Result<Inode*> LsmTree::find_directory(Ino ino) {
  LSMFS_ASSIGN(Inode * inode, find(ino));
  if (!inode->record.is_directory()) return make_error(ENOTDIR, "");
  if (is_gone(*inode)) return make_error(ENOENT, "");
  return inode;
}

// Of a file that had several names, and was found by the one that is left.
void LsmTree::know_only_name(Inode& inode, Inode& dir, std::string_view name) {
  if (inode.place != Inode::Place::linked || inode.record.nlink != 1 || !inode.names.empty()) return;
  inode.names.push_back({dir.ino(), dir.shared_home(), std::string(name)});
}

// Puts the inode of an entry's row into the table, unless it is there: then what is in memory counts.
Result<Inode*> LsmTree::adopt(const Lock& lock, Inode& dir, std::string_view name, std::string_view value) {
  auto row = decode_entry(value);
  if (!row) return make_error(EUCLEAN, fmt::format("the row of an entry in directory {} is damaged", dir.ino().v));
  const bool is_link = std::holds_alternative<Link>(*row);
  const bool shown = dir.record.has_base();
  if (is_link && shown) return make_error(EUCLEAN, fmt::format("an entry that directory {} shows is damaged", dir.ino().v));
  const Ino stored = is_link ? std::get<Link>(*row).ino : std::get<Record>(*row).ino;
  if (stored < kCountedMax && stored >= state_.next_ino) return damaged("the number", stored);  // it would be given again
  Ino ino = shown ? shifts::shifted(stored, dir.record.shift) : stored;
  if (Inode* inode = inodes_.find(ino)) {
    // The entry of an inode with one name is the one it was found by. Else a directory could lie in itself.
    if (inode->place == Inode::Place::linked || (inode->parent == dir.ino() && inode->name == name)) {
      inode->parent = dir.ino();
      know_only_name(*inode, dir, name);
      return inode;
    }
    if (ino < kCountedMax || is_link) return damaged("an entry", ino);
    ino = free_number();
  }
  Inode inode;
  if (is_link) {
    LSMFS_TRY(settle(lock, copied_group_));
    LSMFS_ASSIGN(const auto linked, rows_.linked(lock, ino));
    if (!linked) return damaged("the record", ino);
    auto record = decode_record(*linked);
    if (!record || record->ino != ino || record->home.empty() || record->is_directory()) return damaged("the record", ino);
    inode.record = std::move(*record);
    inode.place = Inode::Place::linked;
    know_only_name(inode, dir, name);
  } else if (shown) {
    std::string home;
    inode.record = record_shown(*dir.record.base, dir.record.shift, name, std::get<Record>(std::move(*row)), home);
    if (!home.empty()) inode.shown_home = std::make_unique<const std::string>(std::move(home));
    inode.record.ino = ino;
    inode.implicit = true;
    inode.dir_home = dir.shared_home();
    inode.name = name;
  } else {
    inode.record = std::get<Record>(std::move(*row));
    inode.record.ino = ino;
    const bool derived = inode.record.is_directory() && inode.record.home.empty();
    if (derived && keys::too_deep(*dir.shared_home(), name, inode.record.number())) return damaged("the home", ino);
    inode.dir_home = dir.shared_home();
    inode.name = name;
  }
  inode.parent = dir.ino();
  inode.read_only = dir.read_only || dir.ino() == kSnapshotsIno;
  inode.as_of = dir.as_of;
  inode.displaced = inode.lies_elsewhere();
  note_displaced(inode);
  return &inodes_.insert(std::move(inode));
}

Result<Inode*> LsmTree::load(const Lock& lock, Inode& dir, std::string_view name) {
  if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
  if (name.empty() || name.find('\0') != name.npos || name.find('/') != name.npos) return make_error(EINVAL, "");
  if (Inode* known = inodes_.find(dir.ino(), name)) {
    renew(*known);
    return known;
  }
  if (dir.record.size == 0 || (absent_.dir == dir.ino() && absent_.name == name)) return nullptr;
  if (const auto ino = uncommitted_entry(keys::entry(*dir.shared_home(), name))) {
    // The store does not show it yet. An inode that a group names stays in the table.
    return ino->v == 0 ? nullptr : inodes_.find(*ino);
  }
  LSMFS_TRY(settle(lock, std::max(dir.home_group, copied_group_)));
  LSMFS_ASSIGN(const auto value, rows_.entry(lock, dir.record.has_base() ? *dir.record.base : *dir.shared_home(), name));
  if (!value) {
    absent_.dir = dir.ino();
    absent_.name = name;
    return nullptr;
  }
  return adopt(lock, dir, name, *value);
}

void LsmTree::changed(Inode& inode) {
  assert(!inode.implicit);
  begin_group();
  if (inode.record_group == open_group().number) return;
  inode.record_group = open_group().number;
  open_group().records.push_back(inode.ino());
}

void LsmTree::blocks_changed(Inode& inode) {
  open_group().blocks = true;
  inode.blocks_group = open_group().number;
}

void LsmTree::set_blocks(Inode& inode, std::uint64_t rows) {
  state_.data_rows += rows - inode.record.blocks;
  inode.record.blocks = rows;
}

void LsmTree::before_holes(Inode& inode) {
  if (!inode.record.is_sparse() && inode.record.blob_blocks == 0) inode.rows = std::make_unique<RowMap>(inode.record.blocks, row_memory_);
}

void LsmTree::after_holes(Inode& inode) {
  if (!inode.record.is_sparse()) inode.rows.reset();
}

void LsmTree::entry_changed(Inode& dir, std::string_view name, Ino ino) {
  begin_group();
  open_group().entries[keys::entry(*dir.shared_home(), name)] = ino;
  absent_.dir = Ino{};
  dir.entries_group = open_group().number;
  if (dir.cookies) dir.cookies->changed(name, ino.v == 0);
  tell_name(dir, name);
}

std::optional<Ino> LsmTree::uncommitted_entry(const std::string& key) const {
  for (const Group* group : {static_cast<const Group*>(&history_.open()), static_cast<const Group*>(history_.sealed())}) {
    if (!group) continue;
    if (auto entry = group->entries.find(key); entry != group->entries.end()) return entry->second;
  }
  return std::nullopt;
}

void LsmTree::drop_if_unused(Inode* inode) {
  if (!inode) return;
  const bool is_there = inode->place == Inode::Place::named && inode->parent == inode->holds;
  if (!is_there) let_go_of_directory(*inode);
  if (inode->lookups > 0 || inode->is_top() || inode->is_removed_tree()) return;
  if (inode->removed() && !history_.failure()) {  // after one its rows are the next mount's matter
    if (options_.read_only) return;  // later
    erase_removed(*inode);
  } else if (inode->record_group > history_.committed()) {
    return;  // the commit lets go of it
  }
  end_stream(*inode);
  const Ino ino = inode->ino();
  let_go_of_directory(*inode);
  inodes_.erase(ino);
}

void LsmTree::erase_removed(Inode& inode) {
  const bool left = inode.record.is_base;
  if (left) leave_to_users(inode);
  if (inode.record.has_base()) {
    leave_base(inode);
    if (inode.record.is_directory()) inode.record.size = 0;  // what it showed
  }
  if (!open_group().drop_new(inode.ino()) && inode.record.blocks > 0) {
    const RowMap* rows = inode.record.blocks <= Rows::kPointEraseMax ? known_rows(inode) : nullptr;
    const BlockIndex end{block_count(inode.record.size)};
    if (rows) {
      rows_.erase_blocks(inode.home(), rows->first(0, end.v, Rows::kPointEraseMax));
    } else {
      rows_.erase_blocks(inode.home(), BlockIndex{0}, end, inode.record.blocks);
    }
  }
  if (inode.large) {
    // What is not committed yet need not be; what is on its way goes with its blob.
    discard_streamed(inode);
    leave_blobs(open_group(), inode, 0, UINT64_MAX);
  }
  erase_xattr_rows(inode);
  if (!left) know_home(inode.record, inode.home());
  if (inode.has_row) rows_.erase_orphan(inode.ino());
  set_blocks(inode, 0);
  inode.has_row = false;
  if (leaving_.files.erase(inode.ino()) > 0) {
    ++leaving_.gone;
    leaving_.changed.notify_all();
  }
  begin_group();
}

Result<std::optional<Attr>> LsmTree::lookup(Ino dir_ino, std::string_view name, Wait wait) {
  return attempt(wait, [&](const Lock& lock) LSMFS_LOCKED -> Result<std::optional<Attr>> {
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    LSMFS_ASSIGN(Inode * inode, load(lock, *dir, name));
    if (!inode) return std::optional<Attr>{};
    if (inode->lookups == 0) {
      // New to memory: perhaps a walk by names. Names that do not exist tell nothing: a writer asks
      // for each before it makes it.
      rows_.note_entry(dir->data_home(), name, wait);
    }
    ++inode->lookups;
    inodes_.used(*inode);
    return std::optional<Attr>(inode->record.attr());
  });
}

void LsmTree::forget(Ino ino, std::uint64_t lookups) {
  Lock lock(mutex_);
  Inode* inode = inodes_.find(ino);
  if (!inode) return;
  inode->lookups -= std::min(lookups, inode->lookups);
  if (inode->lookups == 0 && inode->is_staged()) give_up(*inode);
  drop_if_unused(inode);
  (void)pass_on(lock, Wait::no);  // or by the next change
}

LSMFS_NOT_ANALYSED  // crowded() may be called without the lock
std::vector<Ino> LsmTree::surplus() {
  if (!inodes_.crowded()) return {};
  auto found = attempt(Wait::no, [this](const Lock&) LSMFS_LOCKED -> Result<std::vector<Ino>> { return inodes_.least_used(); });
  return found ? *std::move(found) : std::vector<Ino>();  // or by the next call
}

Result<Attr> LsmTree::getattr(Ino ino, Wait wait) {
  return attempt(wait, [&](const Lock&) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_ASSIGN(const Inode* inode, find(ino));
    return inode->record.attr();
  });
}

Result<Ino> LsmTree::directory_of(Ino ino, Wait wait) {
  return attempt(wait, [&](const Lock&) LSMFS_LOCKED -> Result<Ino> {
    LSMFS_ASSIGN(const Inode* inode, find(ino));
    return inode->parent;
  });
}

void LsmTree::set_flags(Inode& inode, std::uint32_t flags) {
  if (!inode.removed()) count(inode.record, -1);
  inode.record.flags = flags;
  if (!inode.removed()) count(inode.record, +1);
  if (is_fixed(inode.record)) ++below_changes_;
}

Result<Attr> LsmTree::setattr(Ino ino, const AttrChange& change, Wait wait) {
  Result<SeenBlocks> seen = SeenBlocks();
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait, ino));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    Record& record = inode->record;
    LSMFS_TRY(may_set(*inode, change));
    if (change.flags && (*change.flags & ~kInodeFlags)) return make_error(EOPNOTSUPP, "");
    LSMFS_TRY(own_row(lock, *inode));
    const Time now = Time::now(clock_);
    std::optional<std::string> access;
    if (change.mode && record.find_xattr(acl::kAccess)) {
      LSMFS_ASSIGN(auto list, load_acl(lock, *inode, acl::kAccess));
      acl::change_mode(*list, *change.mode);
      access = acl::encode(*list);
    }
    if (change.size) {
      if (record.is_directory()) return make_error(EISDIR, "");
      if (!record.is_regular()) return make_error(EINVAL, "");
      if (*change.size > kFileSizeMax) return make_error(EFBIG, "");
      LSMFS_TRY(resize(lock, *inode, *change.size, seen));
      record.mtime = now;
    }
    if (access) put_xattr(*inode, acl::kAccess, *access);
    if (change.flags) set_flags(*inode, *change.flags);
    if (change.mode) record.mode = (record.mode & S_IFMT) | (*change.mode & 07777);
    if (change.uid) record.uid = *change.uid;
    if (change.gid) record.gid = *change.gid;
    if (change.atime) record.atime = *change.atime;
    if (change.mtime) record.mtime = *change.mtime;
    record.ctime = change.ctime ? *change.ctime : now;
    changed(*inode);
    tell(*inode);
    return record.attr();
  });
}

Result<std::string> LsmTree::readlink(Ino ino, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<std::string> {
    pass_on_for_access(lock);
    LSMFS_ASSIGN(Inode * inode, find(ino));
    if (!S_ISLNK(inode->record.mode)) return make_error(EINVAL, "");
    note_access_time(*inode);
    return inode->record.symlink;
  });
}

}  // namespace lsmfs
