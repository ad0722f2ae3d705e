// Sweeps: what lies below a removed directory is taken away in steps, each as by unlink and rmdir. So names elsewhere of a file keep it, and
// one that is open stays until it is forgotten.
//
// A step takes some entries of one directory, in their order. A directory in it that is not empty becomes a removed one by itself, and comes
// next. So a sweep has as many of them under way as the tree is deep, and each is an orphan of its own to the next mount.
#include <fmt/format.h>

#include <algorithm>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// Of a step: bytes of entries that it reads, and of rows that it adds to the group.
constexpr std::size_t kSweptAtOnce = 8 * KiB, kSweptRows = 64 * KiB;
constexpr std::chrono::milliseconds kSweepTime{10};  // then somebody else may have something to be done

}  // namespace

void LsmTree::on_swept(std::function<void(std::vector<SweptEntry>)> told) {
  const MutexLock lock(swept_mutex_);
  on_swept_ = std::move(told);
}

Result<bool> LsmTree::sweep() {
  std::vector<SweptEntry> held;
  auto more = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED { return sweep_some(lock, held); });
  if (held.empty()) return more;
  const MutexLock lock(swept_mutex_);
  if (on_swept_) on_swept_(std::move(held));
  return more;
}

// False: there was nothing to be done, or it could not be.
bool LsmTree::sweep_for_a_while() {
  const Clock::Time until = clock_.now() + kSweepTime;
  auto more = sweep();
  const bool done = more && *more;
  while (more && *more && clock_.now() < until) more = sweep();
  return done;
}

// The one that is swept next. Those that have become empty go as other removed directories do.
LsmTree::RemovedTree* LsmTree::next_removed_tree() {
  while (!removed_trees_.empty()) {
    Inode* const dir = inodes_.find(removed_trees_.back().dir);
    if (dir && dir->removed() && dir->record.has_base() && !removed_trees_.back().told) return &removed_trees_.back();
    if (dir && dir->is_removed_tree()) return &removed_trees_.back();
    removed_trees_.pop_back();
    drop_if_unused(dir);
  }
  return nullptr;
}

Result<bool> LsmTree::sweep_some(Lock& lock, std::vector<SweptEntry>& held) {
  LSMFS_TRY(begin_own_change(lock, Wait::yes));
  RemovedTree* const tree = next_removed_tree();
  if (!tree) return false;
  Inode& dir = *inodes_.find(tree->dir);
  const Loaded loaded{*this, &dir};  // what is taken away may be the last that holds on to it
  if (dir.record.has_base()) {
    sweep_shown(dir, held);
    tree->told = true;
    return true;
  }
  // From here on nobody but a sweep changes which entries it has, and that one has passed those that it takes away.
  if (!tree->settled) LSMFS_TRY(settle(lock, std::max({dir.entries_group, dir.home_group, copied_group_})));
  tree->settled = true;
  const std::string home = *dir.shared_home();
  const auto rows = rows_.entries(lock, home, tree->after, kSweptAtOnce);
  if (!rows && rows.error().code == EAGAIN) return rows.error();
  if (!rows || rows->empty()) {
    leave(dir, rows ? "something in it is damaged" : rows.error().message());
    return true;
  }
  const std::size_t bytes = open_group().bytes();
  bool taken = false;
  for (const auto& [key, row] : *rows) {
    const std::string name(keys::entry_name(home, key));
    const auto gone = take_away(lock, dir, name, row, held);
    if (!gone && gone.error().code == EAGAIN) {
      if (!taken) return gone.error();
      break;  // it comes next
    }
    tree->after = name;  // also if it cannot be taken away, as what is damaged
    taken |= gone.has_value();
    if (&removed_trees_.back() != tree || open_group().bytes() > bytes + kSweptRows) break;
  }
  return true;
}

// What a removed directory shows goes with it, and only who is in use below it need be told.
void LsmTree::sweep_shown(const Inode& dir, std::vector<SweptEntry>& held) {
  inodes_.for_each([&](Inode& inode) LSMFS_LOCKED {
    if (inode.lookups == 0 || inode.place != Inode::Place::named || !is_within(inode, dir)) return;
    inode.record.nlink = 0;
    held.push_back({inode.parent, inode.name, inode.ino()});
  });
}

// The entry of a removed directory whose row is `row`, as far as its inode is not in memory.
Result<void> LsmTree::take_away(const Lock& lock, Inode& dir, std::string_view name, std::string_view row, std::vector<SweptEntry>& held) {
  LSMFS_ASSIGN(Inode * inode, adopt(lock, dir, name, row));
  const bool is_held = inode->lookups > 0;
  const Loaded loaded{*this, inode};
  if (inode->record.blob_blocks > 0) LSMFS_TRY(large_file(lock, *inode));  // to erase it cannot wait for that
  const Time now = Time::now(clock_);
  remove_name(dir, name, *inode, now);
  if (dir.record.size > 0) --dir.record.size;
  changed(dir);
  if (inode->removed() && inode->record.is_directory() && inode->record.size > 0) {
    touch(inode->record, now);  // by which the kernel knows that its listing of it is old
    removed_trees_.push_back({inode->ino()});
  }
  if (is_held) held.push_back({dir.ino(), std::string(name), inode->ino()});
  return {};
}

// Must hold: it is the one that comes next. It is tried again by the next mount.
void LsmTree::leave(const Inode& dir, std::string_view why) {
  notice_(fmt::format("what is left of a removed directory (inode {}) takes space until fsck -y: {}", dir.ino().v, why));
  removed_trees_.pop_back();
}

}  // namespace lsmfs
