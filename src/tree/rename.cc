// Rename. The record moves to the new entry; what lies under the inode's home stays there, and the
// home becomes explicit in the record: O(1) for a directory of any size. Only small files are moved
// outright, so that the blocks of a tree stay in path order.
#include <fcntl.h>
#include <stdio.h>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kMoveBlocksMax = 256 * KiB / kBlockSize;  // rows moved outright with a rename

}  // namespace

Result<void> LsmTree::rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                             Wait wait) {
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) return make_error(EINVAL, "");
  if (flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) return make_error(EINVAL, "");
  const bool exchange = flags & RENAME_EXCHANGE;
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * source_dir, find_directory(from_dir));
  LSMFS_ASSIGN(Inode * target_dir, find_directory(to_dir));
  LSMFS_ASSIGN(Inode * source, load(*source_dir, from, wait));
  const Loaded source_loaded{*this, lock, source};
  if (!source) return make_error(ENOENT, "");
  LSMFS_ASSIGN(Inode * target, load(*target_dir, to, wait));
  const Loaded target_loaded{*this, lock, target == source ? nullptr : target};
  if (exchange && !target) return make_error(ENOENT, "");
  if ((flags & RENAME_NOREPLACE) && target) return make_error(EEXIST, "");
  if (source == target) return {};  // two names of one file, or the same name: nothing to do
  if (is_within(*target_dir, *source)) return make_error(EINVAL, "");
  if (exchange && is_within(*source_dir, *target)) return make_error(EINVAL, "");
  if (target && !exchange) {
    if (target->record.is_directory()) {
      if (!source->record.is_directory()) return make_error(EISDIR, "");
      if (target->record.size > 0) return make_error(ENOTEMPTY, "");
    } else if (source->record.is_directory()) {
      return make_error(ENOTDIR, "");
    }
  }

  const Time now = Time::now();
  Batch batch;
  State state = state_;
  const std::string source_dir_home = source_dir->home(), target_dir_home = target_dir->home();
  const std::string source_key = keys::entry(source_dir_home, from), target_key = keys::entry(target_dir_home, to);

  std::optional<Removal> removal;
  if (target && !exchange) {
    removal = remove_name(batch, *target, target_key, now);
    if (removal->last) {
      count(state, target->record, -1);
      put_state(batch, state);
    }
  }
  if (!exchange) batch.erase(Family::names, source_key);
  LSMFS_ASSIGN(Placement placed, place(batch, *source, target_dir_home, to, now, wait));
  std::optional<Placement> swapped;
  if (exchange) {
    LSMFS_ASSIGN(swapped, place(batch, *target, source_dir_home, from, now, wait));
  }

  // Entry and subdirectory counts of the two directories, which may be one.
  Record from_record = source_dir->record, to_record = target_dir->record;
  const bool same_dir = source_dir == target_dir;
  Record& arriving = same_dir ? from_record : to_record;
  touch(from_record, now);
  touch(arriving, now);
  if (!exchange) {
    --from_record.size;
    ++arriving.size;
    if (source->record.is_directory()) {
      --from_record.nlink;
      ++arriving.nlink;
    }
    if (target) {
      --arriving.size;
      if (target->record.is_directory()) --arriving.nlink;
    }
  } else if (source->record.is_directory() != target->record.is_directory()) {
    (source->record.is_directory() ? from_record : arriving).nlink--;
    (source->record.is_directory() ? arriving : from_record).nlink++;
  }
  save(batch, *source_dir, from_record);
  if (!same_dir) save(batch, *target_dir, to_record);

  const bool touches_blocks = placed.moved_blocks || (swapped && swapped->moved_blocks);
  LSMFS_TRY(commit(lock, batch, wait, touches_blocks));
  if (touches_blocks) ++moves_;
  state_ = state;
  source_dir->record = std::move(from_record);
  if (!same_dir) target_dir->record = std::move(to_record);
  if (removal) apply_removal(*target, std::move(*removal));
  apply_placement(*source, std::move(placed), target_dir_home, to, to_dir);
  if (swapped) apply_placement(*target, std::move(*swapped), source_dir_home, from, from_dir);
  return {};
}

// Whether `inode` is `ancestor` or lies below it. The kernel holds on to every directory above one
// that is in use, so the chain of parents is in the table.
bool LsmTree::is_within(const Inode& inode, const Inode& ancestor) const {
  if (!ancestor.record.is_directory()) return false;
  for (const Inode* at = &inode; at; at = inodes_.find(at->parent)) {
    if (at == &ancestor) return true;
    if (at->ino() == kRootIno) break;
  }
  return false;
}

// Writes the row that gives `inode` the name `name` in the directory at `dir_home`, and moves its
// blocks when they are few. The entry it had before is the caller's to erase or overwrite.
Result<LsmTree::Placement> LsmTree::place(Batch& batch, const Inode& inode, const std::string& dir_home,
                                          std::string_view name, const Time& now, Wait wait) const {
  Placement placement;
  placement.record = inode.record;
  Record& record = placement.record;
  record.ctime = now;
  const std::string key = keys::entry(dir_home, name);
  if (inode.place == Inode::Place::linked) {
    batch.put(Family::names, key, encode(Link{record.ino, record.mode & S_IFMT}));
    batch.put(Family::names, keys::linked(record.ino), encode(record));
    return placement;
  }
  const std::string old_home = inode.home();
  std::string new_home = keys::child_home(dir_home, name, record.ino);
  const bool has_something = record.is_directory() ? record.size > 0 : record.blocks > 0;
  const bool moves = has_something && record.is_regular() && new_home != old_home &&
                     div_up(record.size, kBlockSize) <= kMoveBlocksMax && store_.room().v > kMoveBlocksMax * kBlockSize;
  if (moves) {
    LSMFS_TRY(move_blocks(batch, old_home, new_home, wait));
    placement.moved_blocks = true;
  }
  record.home = !has_something || moves || new_home == old_home ? std::string() : old_home;
  batch.put(Family::names, key, encode(record));
  return placement;
}

void LsmTree::apply_placement(Inode& inode, Placement placement, const std::string& dir_home, std::string_view name,
                              Ino dir) {
  inode.record = std::move(placement.record);
  inode.parent = dir;
  if (inode.place == Inode::Place::linked) return;
  inode.atime_dirty = false;
  inode.dir_home = dir_home;
  inode.name = name;
}

}  // namespace lsmfs
