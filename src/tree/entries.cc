// Names come and go: make, link, unlink, rmdir.
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// What the log and the tables may need for one more entry, generously; for the check of free space.
constexpr std::size_t kEntryRoom = 16 * KiB;

bool supported_type(std::uint32_t mode) {
  return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) || S_ISFIFO(mode) ||
         S_ISSOCK(mode);
}

}  // namespace

void LsmTree::count(State& state, const Record& record, int change) {
  TreeCounts& c = state.counts;
  std::uint64_t& n = S_ISREG(record.mode)   ? c.regular
                     : S_ISDIR(record.mode) ? c.directories
                     : S_ISLNK(record.mode) ? c.symlinks
                                            : c.others;
  n += static_cast<std::uint64_t>(static_cast<std::int64_t>(change));
}

Result<Attr> LsmTree::make(Ino dir_ino, std::string_view name, const NewInode& what, Wait wait) {
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
  LSMFS_ASSIGN(Inode * existing, load(*dir, name, wait));
  const Loaded loaded{*this, lock, existing};
  if (existing) return make_error(EEXIST, "");
  if (!supported_type(what.mode)) return make_error(EINVAL, "");
  if (S_ISLNK(what.mode) && what.symlink.size() > kSymlinkMax) return make_error(ENAMETOOLONG, "");
  if (S_ISLNK(what.mode) && what.symlink.empty()) return make_error(ENOENT, "");
  LSMFS_TRY(need_room(kEntryRoom));

  const Time now = Time::now();
  State state = state_;
  auto inode = std::make_unique<Inode>();
  Record& record = inode->record;
  record.ino = state.next_ino;
  ++state.next_ino.v;
  record.mode = what.mode & (S_IFMT | 07777);
  record.nlink = S_ISDIR(what.mode) ? 2 : 1;
  record.uid = what.uid;
  record.gid = what.gid;
  if (dir->record.mode & S_ISGID) {
    record.gid = dir->record.gid;
    if (S_ISDIR(what.mode)) record.mode |= S_ISGID;
  }
  if (S_ISCHR(what.mode) || S_ISBLK(what.mode)) record.rdev = what.rdev;
  if (S_ISLNK(what.mode)) {
    record.symlink = what.symlink;
    record.size = what.symlink.size();
  }
  record.atime = record.mtime = record.ctime = record.btime = now;
  inode->parent = dir_ino;
  inode->dir_home = dir->home();
  inode->name = name;
  inode->lookups = 1;

  Record dir_record = dir->record;
  touch(dir_record, now);
  ++dir_record.size;
  if (S_ISDIR(what.mode)) ++dir_record.nlink;
  count(state, record, +1);

  Batch batch;
  save(batch, *inode, record);
  save(batch, *dir, dir_record);
  put_state(batch, state);
  LSMFS_TRY(commit(lock, batch, wait, false));
  state_ = state;
  dir->record = std::move(dir_record);
  return inodes_.insert(std::move(inode)).record.attr();
}

Result<Attr> LsmTree::link(Ino ino, Ino dir_ino, std::string_view name, Wait wait) {
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * inode, find(ino));
  LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
  LSMFS_ASSIGN(Inode * existing, load(*dir, name, wait));
  const Loaded loaded{*this, lock, existing};
  if (existing) return make_error(EEXIST, "");
  if (inode->record.is_directory()) return make_error(EPERM, "");
  if (inode->removed()) return make_error(ENOENT, "");
  if (inode->record.nlink >= kLinkMax) return make_error(EMLINK, "");
  LSMFS_TRY(need_room(kEntryRoom));

  const Time now = Time::now();
  Batch batch;
  Record record = inode->record;
  ++record.nlink;
  record.ctime = now;
  const std::string link_row = encode(Link{ino, record.mode & S_IFMT});
  if (inode->place == Inode::Place::named) {
    // The record leaves the entry for a row of its own. Its blocks stay where they are.
    record.home = inode->home();
    batch.put(Family::names, inode->row_key(), link_row);
  }
  batch.put(Family::names, keys::linked(ino), encode(record));
  batch.put(Family::names, keys::entry(dir->home(), name), link_row);
  Record dir_record = dir->record;
  touch(dir_record, now);
  ++dir_record.size;
  save(batch, *dir, dir_record);
  LSMFS_TRY(commit(lock, batch, wait, false));
  inode->record = std::move(record);
  inode->place = Inode::Place::linked;
  inode->dir_home.clear();
  inode->name.clear();
  dir->record = std::move(dir_record);
  ++inode->lookups;
  return inode->record.attr();
}

// Erases the entry and writes what becomes of the inode; apply_removal does the same in memory
// after the commit.
LsmTree::Removal LsmTree::remove_name(Batch& batch, const Inode& inode, std::string_view entry_key,
                                      const Time& now) const {
  Removal removal;
  removal.record = inode.record;
  Record& record = removal.record;
  record.ctime = now;
  record.nlink = record.is_directory() ? 0 : record.nlink - 1;
  removal.last = record.nlink == 0;
  batch.erase(Family::names, entry_key);
  if (!removal.last) {
    batch.put(Family::names, keys::linked(record.ino), encode(record));
    return removal;
  }
  if (inode.place == Inode::Place::linked) batch.erase(Family::names, keys::linked(record.ino));
  // Somebody may have it open: the blocks stay until it is forgotten. The row lets a mount after a
  // crash find them; without blocks there is nothing to find.
  record.home = inode.home();
  removal.has_row = record.blocks > 0;
  if (removal.has_row) batch.put(Family::names, keys::orphan(record.ino), encode(record));
  return removal;
}

void LsmTree::apply_removal(Inode& inode, Removal removal) {
  inode.record = std::move(removal.record);
  if (!removal.last) return;
  inode.place = Inode::Place::orphan;
  inode.has_row = removal.has_row;
  inode.atime_dirty = false;
  inode.dir_home.clear();
  inode.name.clear();
}

Result<void> LsmTree::remove(Ino dir_ino, std::string_view name, bool directory, Wait wait) {
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
  LSMFS_ASSIGN(Inode * inode, load(*dir, name, wait));
  const Loaded loaded{*this, lock, inode};
  if (!inode) return make_error(ENOENT, "");
  if (directory && !inode->record.is_directory()) return make_error(ENOTDIR, "");
  if (!directory && inode->record.is_directory()) return make_error(EISDIR, "");
  if (directory && inode->record.size > 0) return make_error(ENOTEMPTY, "");

  const Time now = Time::now();
  Batch batch;
  Removal removal = remove_name(batch, *inode, keys::entry(dir->home(), name), now);
  State state = state_;
  if (removal.last) {
    count(state, inode->record, -1);
    put_state(batch, state);
  }
  Record dir_record = dir->record;
  touch(dir_record, now);
  --dir_record.size;
  if (directory) --dir_record.nlink;
  save(batch, *dir, dir_record);
  LSMFS_TRY(commit(lock, batch, wait, false));
  state_ = state;
  dir->record = std::move(dir_record);
  apply_removal(*inode, std::move(removal));
  return {};
}

Result<void> LsmTree::unlink(Ino dir, std::string_view name, Wait wait) { return remove(dir, name, false, wait); }
Result<void> LsmTree::rmdir(Ino dir, std::string_view name, Wait wait) { return remove(dir, name, true, wait); }

}  // namespace lsmfs
