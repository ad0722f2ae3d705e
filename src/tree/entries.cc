// Names come and go: make, link, unlink, rmdir.
#include <utility>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// Stands in the home of a file that was made without a name.
constexpr std::string_view kUnnamed = "#";

// Of an inode. Many programs give a file a second name and take the first away, to be told when the second is taken.
constexpr std::size_t kNamesKnown = 4;

bool supported_type(std::uint32_t mode) {
  return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ||
         S_ISSOCK(mode);
}

}  // namespace

void LsmTree::count(TreeCounts& counts, const Record& record, int change) {
  std::uint64_t& n = S_ISREG(record.mode)   ? counts.regular
                     : S_ISDIR(record.mode) ? counts.directories
                     : S_ISLNK(record.mode) ? counts.symlinks
                                            : counts.others;
  const auto by = static_cast<std::uint64_t>(static_cast<std::int64_t>(change));
  n += by;
  if (is_fixed(record)) counts.fixed += by;
}

void LsmTree::count_displaced(Inode& inode) {
  const bool is = inode.lies_elsewhere();
  if (is && !inode.displaced) ++state_.counts.displaced;
  if (!is && inode.displaced) --state_.counts.displaced;
  inode.displaced = is;
}

Result<Attr> LsmTree::make(Ino dir_ino, std::string_view name, const NewInode& what, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    LSMFS_ASSIGN(Inode * existing, load(lock, *dir, name));
    const Loaded loaded{*this, existing};
    if (existing) return make_error(EEXIST, "");
    if (!supported_type(what.mode)) return make_error(EINVAL, "");
    if (S_ISLNK(what.mode) && what.symlink.size() > kSymlinkMax) return make_error(ENAMETOOLONG, "");
    if (S_ISLNK(what.mode) && what.symlink.empty()) return make_error(ENOENT, "");
    LSMFS_TRY(may_add_to(*dir));
    LSMFS_TRY(need_room_for_names(kRecordRoom));
    LSMFS_ASSIGN(const Inherited inherited, inherit(lock, *dir, what));
    LSMFS_TRY(expand(lock, *dir));

    Inode& inode = add(*dir, name, what, inherited, Time::now(clock_));
    inode.lookups = 1;
    return inode.record.attr();
  });
}

// An inode that is not in the table yet and has no place.
Inode LsmTree::new_inode(const Inode& dir, const NewInode& what, const Inherited& inherited, const Time& now) {
  Inode made;
  Record& record = made.record;
  record.ino = state_.next_ino;
  ++state_.next_ino.v;
  record.mode = inherited.mode;
  record.flags = dir.record.flags & (FS_NODUMP_FL | FS_NOATIME_FL);
  record.nlink = S_ISDIR(what.mode) ? 2 : 1;
  record.uid = what.uid;
  record.gid = what.gid;
  if (dir.record.mode & S_ISGID) {
    record.gid = dir.record.gid;
    if (S_ISDIR(what.mode)) record.mode |= S_ISGID;
  }
  if (S_ISCHR(what.mode) || S_ISBLK(what.mode)) record.rdev = what.rdev;
  if (S_ISLNK(what.mode)) {
    record.symlink = what.symlink;
    record.size = what.symlink.size();
  }
  record.atime = record.mtime = record.ctime = record.btime = now;
  made.parent = dir.ino();
  return made;
}

void LsmTree::put_inherited(Inode& inode, const Inherited& inherited) {
  if (!inherited.access.empty()) put_xattr(inode, acl::kAccess, inherited.access);
  if (!inherited.defaults.empty()) put_xattr(inode, acl::kDefault, inherited.defaults);
}

// Gives a directory a home of its own if it is too deep for one that follows from its path, or has none. Must hold: nothing lies below it.
void LsmTree::settle_far_away(Inode& inode) {
  const Ino number = inode.record.number();
  if (inode.ino() == kRootIno) inode.record.home = keys::root_home(number);
  else if (inode.record.is_directory() && keys::too_deep(*inode.dir_home, inode.name, number)) inode.record.home = keys::far_home(number);
}

// Makes an inode and its entry, which must not exist.
Inode& LsmTree::add(Inode& dir, std::string_view name, const NewInode& what, const Inherited& inherited, const Time& now) {
  Inode made = new_inode(dir, what, inherited, now);
  made.dir_home = dir.shared_home();
  made.name = name;
  settle_far_away(made);
  put_inherited(made, inherited);
  Inode& inode = inodes_.insert(std::move(made));
  rows_.know_below(inode.home());
  changed(inode);
  entry_changed(dir, name, inode.ino());
  count(inode.record, +1);

  touch(dir.record, now);
  ++dir.record.size;
  if (S_ISDIR(what.mode)) dir.count_directory(+1);
  changed(dir);
  return inode;
}

Result<Attr> LsmTree::make_unnamed(Ino dir_ino, const NewInode& what, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    if (!S_ISREG(what.mode)) return make_error(EINVAL, "");
    LSMFS_TRY(may_add_to(*dir));
    LSMFS_TRY(need_room_for_names(kRecordRoom));
    LSMFS_ASSIGN(const Inherited inherited, inherit(lock, *dir, what));
    return add_unnamed(*dir, kUnnamed, what, inherited);
  });
}

// Makes an inode that may get a name, as long as somebody holds on to it. It lies where `near` would have it: unique by its number, whatever
// that name is. What is only shown has no place of its own to be near to.
Attr LsmTree::add_unnamed(Inode& dir, std::string_view near, const NewInode& what, const Inherited& inherited) {
  Inode made = new_inode(dir, what, inherited, Time::now(clock_));
  made.record.nlink = 0;
  const bool far = dir.implicit || (made.record.is_directory() && keys::too_deep(*dir.shared_home(), near, made.ino()));
  made.record.home = far ? keys::far_home(made.ino()) : keys::child_home(*dir.shared_home(), near, made.ino());
  made.place = Inode::Place::orphan;
  put_inherited(made, inherited);
  made.linkable = true;
  made.lookups = 1;
  Inode& inode = inodes_.insert(std::move(made));
  rows_.know_below(inode.home());
  changed(inode);
  return inode.record.attr();
}

Result<Attr> LsmTree::link(Ino ino, Ino dir_ino, std::string_view name, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait, ino));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    LSMFS_ASSIGN(Inode * existing, load(lock, *dir, name));
    const Loaded loaded{*this, existing}, linked{*this, inode};
    if (existing) return make_error(EEXIST, "");
    LSMFS_TRY(may_add_to(*dir));
    LSMFS_TRY(may_change(*inode));
    if (inode->record.is_directory() && !inode->is_staged()) return make_error(EPERM, "");
    const bool gone = inode->place == Inode::Place::linked ? false : is_gone(*inode);  // of several names, some may be left
    if (gone && !inode->linkable) return make_error(ENOENT, "");
    if (inode->is_staged()) {
      if (is_within(*dir, *inode)) return make_error(EINVAL, "");
      if (const auto bulk = bulk_writers_.find(ino); bulk != bulk_writers_.end() && bulk->second) return make_error(EBUSY, "");
    }
    if (inode->record.nlink >= kLinkMax) return make_error(EMLINK, "");
    LSMFS_TRY(need_room_for_names(kRecordRoom));
    LSMFS_TRY(expand(lock, *dir));
    LSMFS_TRY(own_row(lock, *inode));
    if (inode->place == Inode::Place::named && ino >= kCountedMax) {  // it need not be unique in the store
      LSMFS_ASSIGN(const auto other, rows_.linked(lock, ino));
      if (other) return make_error(EMLINK, "");
    }
    std::string new_home;
    Taken blocks;
    if (inode->removed()) {
      new_home = keys::child_home(*dir->shared_home(), name, inode->record.number());
      if (takes_blocks_along(*inode, new_home)) {
        LSMFS_ASSIGN(blocks, blocks_to_move(lock, *inode));
      }
    }

    const Time now = Time::now(clock_);
    const std::string link_row = encode(Link{ino, inode->record.mode & S_IFMT});
    if (inode->place == Inode::Place::named) {
      // The record leaves the entry for a row of its own. Its blocks stay where they are.
      inode->names = {{inode->parent, inode->dir_home, inode->name}};
      inode->record.home = inode->home();
      batch().put(Family::names, inode->row_key(), link_row);
      open_group().entries[inode->row_key()] = ino;
      inodes_.clear_name(*inode, Inode::Place::linked);
    }
    if (inode->removed()) {
      // Its first name. What it holds moves there if it is small.
      move_blocks(*inode, blocks, new_home);
      if (blocks.moves || (inode->record.is_directory() && inode->record.home == new_home)) inode->record.home.clear();
      if (inode->has_row) rows_.erase_orphan(ino);
      inode->has_row = inode->linkable = false;
      bulk_writers_.erase(ino);
      inodes_.set_name(*inode, dir_ino, dir->shared_home(), name);
      if (!inode->record.has_rows_below()) inode->record.home.clear();
      count(inode->record, +1);
    } else {
      ++below_changes_;
      rows_.put_entry(*dir->shared_home(), name, link_row);
      const bool known = !inode->names.empty() && inode->names.size() < kNamesKnown;
      if (known) inode->names.push_back({dir_ino, dir->shared_home(), std::string(name)});
      else inode->names.clear();
    }
    if (inode->record.is_directory()) {
      inode->record.nlink = 2 + inode->directories;
      dir->count_directory(+1);
    } else {
      ++inode->record.nlink;
    }
    inode->record.ctime = now;
    changed(*inode);
    entry_changed(*dir, name, ino);
    if (inode->record.is_directory()) tell_below(*dir, name);  // nothing was told of what came below it before it had a name
    touch(dir->record, now);
    ++dir->record.size;
    changed(*dir);
    ++inode->lookups;
    return inode->record.attr();
  });
}

// The record of a file that has one name goes back to the entry: a walk would have to look for it elsewhere, each time.
void LsmTree::back_to_entry(Inode& inode) {
  if (inode.place != Inode::Place::linked || inode.record.nlink != 1 || inode.names.size() != 1) return;
  Inode* const dir = inodes_.find(inode.names.front().dir);
  if (!dir) return;  // nobody would tell what becomes of it
  if (inode.holds != dir->ino()) {
    let_go_of_directory(inode);
    inode.holds = dir->ino();
    ++dir->lookups;
  }
  rows_.erase_linked(inode.ino());
  const Inode::Name only = std::move(inode.names.front());
  inode.names.clear();
  inodes_.set_name(inode, only.dir, only.dir_home, only.name);
  Record& record = inode.record;
  if (!record.has_rows_below() || record.home == keys::child_home(*only.dir_home, only.name, record.number())) record.home.clear();
  open_group().entries[inode.row_key()] = inode.ino();
}

void LsmTree::let_go_of_directory(Inode& inode) {
  if (inode.holds == Ino{}) return;
  Inode* const dir = inodes_.find(std::exchange(inode.holds, {}));
  if (!dir) return;
  --dir->lookups;
  drop_if_unused(dir);
}

// Where a file's blocks would lie if this name were taken away and left it one that is known.
std::optional<std::string> LsmTree::home_left(const Inode& inode, const Inode& dir, std::string_view name) {
  if (inode.place != Inode::Place::linked || inode.record.nlink != 2 || inode.names.size() != 2) return std::nullopt;
  const auto is_it = [&](const Inode::Name& known) { return known.dir == dir.ino() && known.name == name; };
  const bool first = is_it(inode.names.front());
  if (first == is_it(inode.names.back())) return std::nullopt;
  const Inode::Name& left = first ? inode.names.back() : inode.names.front();
  return keys::child_home(*left.dir_home, left.name, inode.record.number());
}

// Takes away the entry `name` of `dir`, which is `inode`, and what follows for the inode.
void LsmTree::remove_name(Inode& dir, std::string_view name, Inode& inode, const Time& now) {
  Record& record = inode.record;
  rows_.erase_entry(*dir.shared_home(), name);
  entry_changed(dir, name, Ino{});
  record.ctime = now;
  // Only a file of several names can have one left, whatever a damaged record says.
  record.nlink = inode.place == Inode::Place::linked && record.nlink > 0 ? record.nlink - 1 : 0;
  changed(inode);
  std::erase_if(inode.names, [&](const Inode::Name& known) { return known.dir == dir.ino() && known.name == name; });
  if (record.nlink > 0) return;
  count(record, -1);
  if (inode.place == Inode::Place::linked) rows_.erase_linked(record.ino);
  // Somebody may have it open: the blocks stay until it is forgotten.
  record.home = inode.home();
  inodes_.clear_name(inode, Inode::Place::orphan);
  count_displaced(inode);  // it may be gone when the records are put
  if (record.all_blocks() > 0 && inode.lookups > 0) {
    leaving_.files.insert(inode.ino());
    leaving_.last = clock_.now();
  }
}

Result<void> LsmTree::remove(Ino dir_ino, std::string_view name, bool directory, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait, inode_of(dir_ino, name)));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    LSMFS_ASSIGN(Inode * inode, load(lock, *dir, name));
    const Loaded loaded{*this, inode};
    if (!inode) return make_error(ENOENT, "");
    LSMFS_TRY(may_remove(*dir, *inode));
    if (directory && !inode->record.is_directory()) return make_error(ENOTDIR, "");
    if (!directory && inode->record.is_directory()) return make_error(EISDIR, "");
    if (directory && inode->record.size > 0) return make_error(ENOTEMPTY, "");
    LSMFS_TRY(expand(lock, *dir, Expands::to_free));
    if (inode->record.blob_blocks > 0) LSMFS_TRY(large_file(lock, *inode));  // to erase it cannot wait for that
    // Whoever writes a file, gives it a second name and takes the first away renames it. What was written before stays: the first
    // name is also taken away from each file of an old copy made of links.
    const auto new_home = home_left(*inode, *dir, name);
    Taken blocks;
    if (new_home && takes_blocks_along(*inode, *new_home)) blocks = blocks_in_group(*inode);

    const Time now = Time::now(clock_);
    remove_name(*dir, name, *inode, now);
    if (blocks.moves) {
      move_blocks(*inode, blocks, *new_home);
      inode->record.home = *new_home;
    }
    touch(dir->record, now);
    --dir->record.size;
    if (directory) dir->count_directory(-1);
    changed(*dir);
    return {};
  });
}

Result<void> LsmTree::unlink(Ino dir, std::string_view name, Wait wait) { return remove(dir, name, false, wait); }
Result<void> LsmTree::rmdir(Ino dir, std::string_view name, Wait wait) { return remove(dir, name, true, wait); }

}  // namespace lsmfs
