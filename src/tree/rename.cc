// Rename. The record moves to the new entry; what lies under the inode's home stays there, and the
// home becomes explicit in the record: O(1) for a directory of any size. Only small files are moved
// outright, so that the blocks of a tree stay in path order; link and unlink do the same (entries.cc).
#include <fcntl.h>
#include <stdio.h>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<void> LsmTree::rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                             Wait wait, Owner whiteout_owner) {
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT)) return make_error(EINVAL, "");
  const bool exchange = flags & RENAME_EXCHANGE;
  if (exchange && flags != RENAME_EXCHANGE) return make_error(EINVAL, "");
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait, inode_of(from_dir, from)));
    LSMFS_ASSIGN(Inode * source_dir, find_directory(from_dir));
    LSMFS_ASSIGN(Inode * target_dir, find_directory(to_dir));
    LSMFS_ASSIGN(Inode * source, load(lock, *source_dir, from));
    const Loaded source_loaded{*this, source};
    if (!source) return make_error(ENOENT, "");
    LSMFS_ASSIGN(Inode * target, load(lock, *target_dir, to));
    const Loaded target_loaded{*this, target == source ? nullptr : target};
    if (exchange && !target) return make_error(ENOENT, "");
    if ((flags & RENAME_NOREPLACE) && target) return make_error(EEXIST, "");
    if (source == target) return {};  // two names of one file, or the same name: nothing to do
    LSMFS_TRY(may_remove(*source_dir, *source));
    LSMFS_TRY(target ? may_remove(*target_dir, *target) : may_name_in(*target_dir));
    const auto of_snapshots = [](const Inode* dir) { return dir->ino() == kSnapshotsIno; };
    if (of_snapshots(source_dir) != of_snapshots(target_dir) || (of_snapshots(source_dir) && (flags & RENAME_WHITEOUT))) return make_error(EROFS, "");  // a snapshot has its name there
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

    // What can fail comes first.
    LSMFS_TRY(expand(lock, *source_dir));
    LSMFS_TRY(expand(lock, *target_dir));
    if (target && !exchange && target->record.blob_blocks > 0) LSMFS_TRY(large_file(lock, *target));  // which may be erased
    const NewInode whiteout{.mode = S_IFCHR, .uid = whiteout_owner.uid, .gid = whiteout_owner.gid, .rdev = 0};
    Inherited inherited;
    if (flags & RENAME_WHITEOUT) {
      LSMFS_TRY(need_room_for_names(kRecordRoom));
      LSMFS_ASSIGN(inherited, inherit(lock, *source_dir, whiteout));
    }
    const std::string source_home = keys::child_home(*target_dir->shared_home(), to, source->record.number());
    Taken source_blocks, target_blocks;
    if (source->place == Inode::Place::named && takes_blocks_along(*source, source_home)) {
      LSMFS_ASSIGN(source_blocks, blocks_to_move(lock, *source));
    }
    if (exchange && target->place == Inode::Place::named &&
        takes_blocks_along(*target, keys::child_home(*source_dir->shared_home(), from, target->record.number()))) {
      LSMFS_ASSIGN(target_blocks, blocks_to_move(lock, *target));
    }

    const Time now = Time::now(clock_);
    const bool source_is_dir = source->record.is_directory();
    if (source_is_dir || (exchange && target->record.is_directory())) {
      ++below_changes_;
      tell_below(*source_dir, from);
      tell_below(*target_dir, to);
      changes_.notes().paths_changed();
    }
    touch(source_dir->record, now);
    touch(target_dir->record, now);
    if (exchange) {
      place(*source, *target_dir, to, source_blocks, now);
      place(*target, *source_dir, from, target_blocks, now);
      if (source_is_dir != target->record.is_directory()) {
        --(source_is_dir ? source_dir : target_dir)->record.nlink;
        ++(source_is_dir ? target_dir : source_dir)->record.nlink;
      }
    } else {
      if (target) {
        if (target->record.is_directory()) --target_dir->record.nlink;
        --target_dir->record.size;
        remove_name(*target_dir, to, *target, now);
      }
      rows_.erase_entry(*source_dir->shared_home(), from);
      entry_changed(*source_dir, from, Ino{});
      place(*source, *target_dir, to, source_blocks, now);
      --source_dir->record.size;
      ++target_dir->record.size;
      if (source_is_dir) {
        --source_dir->record.nlink;
        ++target_dir->record.nlink;
      }
      // What overlayfs knows as a name that is not there, although a lower layer has it.
      if (flags & RENAME_WHITEOUT) add(*source_dir, from, whiteout, inherited, now);
    }
    changed(*source_dir);
    changed(*target_dir);
    return {};
  });
}

// Whether `inode` is `ancestor` or lies below it. The kernel holds on to every directory above one
// that is in use, so the chain of parents is in the table.
bool LsmTree::is_within(const Inode& inode, const Inode& ancestor) const {
  if (!ancestor.record.is_directory()) return false;
  std::size_t left = inodes_.size();  // the chain of a damaged tree may lead back to itself
  for (const Inode* at = &inode; at; at = inodes_.find(at->parent)) {
    if (at == &ancestor || left-- == 0) return true;
    if (at->is_top()) break;
  }
  return false;
}

bool LsmTree::takes_blocks_along(const Inode& inode, const std::string& new_home) const {
  return inode.record.is_regular() && inode.record.blocks > 0 && !inode.record.is_base && !inode.record.has_base() &&
         block_count(inode.record.size) <= kMoveBlocksMax && inode.home() != new_home && !inode.record.has_xattr_rows() &&
         store_.room().v > 2 * kMoveBlocksMax * kBlockSize;
}

// Those of a small file that was written just now, if a group has them all: nothing else moves.
LsmTree::Taken LsmTree::blocks_in_group(const Inode& inode) {
  if (open_group().find_new(inode.ino())) return {.moves = true, .blocks = {}};
  Group* const sealed = history_.sealed();
  if (!sealed || sealed->number != inode.blocks_group) return {};
  const NewFile* const file = sealed->find_new(inode.ino());
  if (!file) return {};
  Taken taken{.moves = true, .blocks = {}};
  for (const auto& [index, row] : file->rows) taken.blocks.emplace_back(BlockIndex{index}, row);
  return taken;
}

// Those of a small file: mostly it was written under a temporary name just now. When they cannot be read they stay where they are.
Result<LsmTree::Taken> LsmTree::blocks_to_move(const Lock& lock, const Inode& inode) {
  if (auto taken = blocks_in_group(inode); taken.moves) return taken;
  LSMFS_TRY(settle(lock, inode.blocks_group));
  auto blocks = rows_.blocks(lock, inode.home(), BlockIndex{0}, BlockIndex{kMoveBlocksMax}, true);
  if (blocks) return Taken{.moves = !blocks->empty(), .blocks = std::move(*blocks)};
  if (blocks.error().code != EAGAIN && can_change()) return Taken{};
  return blocks.error();
}

// Gives `blocks`, which are all its rows, their place under `new_home`. The home it had before is the caller's to change.
void LsmTree::move_blocks(Inode& inode, const Taken& blocks, const std::string& new_home) {
  if (!blocks.moves) return;
  rows_.know_below(new_home);
  if (NewFile* const file = open_group().find_new(inode.ino())) {
    file->home = new_home;
  } else {
    // It is one of this group now: what it held before is in other groups, and goes.
    const std::string old_home = inode.home();
    NewFile& moved = open_group().new_files[inode.ino()];
    moved.home = new_home;
    for (const auto& [index, bytes] : blocks.blocks) {
      open_group().write_new(moved, index.v, 0, bytes);
      rows_.erase_block(old_home, index);
    }
  }
  blocks_changed(inode);
  inode.moved = ++moves_;
}

bool LsmTree::moved_since(Ino ino, std::uint64_t moves) {
  const auto moved = attempt(Wait::no, [&](const Lock&) LSMFS_LOCKED -> Result<bool> {
    const Inode* inode = inodes_.find(ino);
    return inode && inode->moved > moves;
  });
  return !moved || *moved;
}

// Gives `inode` the name `name` in `dir`. `blocks` are its rows if they move along. The entry it had
// before is the caller's to take away.
void LsmTree::place(Inode& inode, Inode& dir, std::string_view name, const Taken& blocks, const Time& now) {
  Record& record = inode.record;
  record.ctime = now;
  changed(inode);
  entry_changed(dir, name, inode.ino());
  if (inode.place == Inode::Place::linked) {
    inode.parent = dir.ino();
    ++below_changes_;
    rows_.put_entry(*dir.shared_home(), name, encode(Link{record.ino, record.mode & S_IFMT}));
    inode.names.clear();
    know_only_name(inode, dir, name);
    return;
  }
  const std::string old_home = inode.home();
  const std::string new_home = keys::child_home(*dir.shared_home(), name, record.number());
  move_blocks(inode, blocks, new_home);
  const bool left_behind = !blocks.moves && record.has_rows_below();
  record.home = left_behind && new_home != old_home ? old_home : std::string();
  inodes_.set_name(inode, dir.ino(), dir.shared_home(), name);
  if (!left_behind) settle_far_away(inode);
  inode.own_home.reset();
  if (record.has_base()) ++layouts_;  // what it shows has its home from it
  note_displaced(inode);
}

}  // namespace lsmfs
