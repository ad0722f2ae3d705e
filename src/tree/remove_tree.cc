// Removal of trees. One batch takes the directory's entry away and makes it an orphan that still has entries: no path leads to it, and a
// sweep takes away what lies below (sweep.cc). The directories below keep their names until then, and lead nowhere: whoever works in one
// asks for its parents first, though no more than once after each removal (is_gone).
#include <unordered_set>
#include <utility>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
// Whether it has been removed, by itself or with a directory above it. The kernel holds on to all directories above one that is in use, and
// to that of an open file.
bool LsmTree::is_gone(Inode& inode) {
  std::vector<Inode*> passed;
  for (Inode* at = &inode; at && at->reached_as_of != removals_; at = at->is_top() || at->is_staged() ? nullptr : inodes_.find(at->parent)) {
    if (at->removed() && !at->is_staged()) return true;
    passed.push_back(at);
    if (passed.size() > inodes_.size()) break;  // the parents of a damaged tree may lead back to it
  }
  if (inode.removed() && !inode.is_staged()) return true;
  for (Inode* const at : passed) at->reached_as_of = removals_;
  return false;
}

Result<std::string> LsmTree::remove_tree(Ino dir, Ino parent, Wait wait) {
  std::optional<std::uint64_t> looked;
  for (int looks = 0;; ++looks) {
    LSMFS_ASSIGN(auto name, attempt(wait, [&](Lock& lock) LSMFS_LOCKED { return take_out(lock, wait, dir, parent, looked); }));
    if (name) return *std::move(name);
    if (wait == Wait::no || looks == kLooksMost) return make_error(EAGAIN, "");
    LSMFS_ASSIGN(looked, look_for_fixed(dir));
  }
}

// nullopt: it has first to be looked whether something below is immutable or append-only; `looked` says how far that was done.
Result<std::optional<std::string>> LsmTree::take_out(Lock& lock, Wait wait, Ino dir, Ino parent, std::optional<std::uint64_t> looked) {
  LSMFS_TRY(begin_change(lock, wait));
  LSMFS_ASSIGN(Inode * inode, find_directory(dir));
  if (inode->is_top()) return make_error(EBUSY, "");
  LSMFS_ASSIGN(Inode * from, find_directory(inode->parent));
  if (from->ino() != parent) return make_error(ESTALE, "");
  LSMFS_TRY(may_remove(*from, *inode));
  if (state_.counts.fixed > 0 && inode->record.size > 0 && !inode->read_only && looked != below_changes_) return std::optional<std::string>();

  const Loaded loaded{*this, inode};
  LSMFS_TRY(expand(lock, *from, Expands::to_free));
  std::string name = inode->name;
  const Time now = Time::now(clock_);
  if (inode->record.size > 0) tell_below(*from, name);
  changes_.notes().paths_changed();
  remove_name(*from, name, *inode, now);
  touch(from->record, now);
  --from->record.size;
  --from->record.nlink;
  changed(*from);
  if (inode->record.size == 0) return std::optional(std::move(name));
  touch(inode->record, now);  // by which the kernel knows that its listing of it is old
  ++removals_;
  removed_trees_.push_front({dir});
  upkeep_.removed_tree(clock_.now());
  look_again_in_time();
  return std::optional(std::move(name));
}

// EPERM: something below is immutable or append-only. Else as of when nothing is (below_changes_).
Result<std::uint64_t> LsmTree::look_for_fixed(Ino dir) {
  std::uint64_t as_of = 0;
  std::vector<std::string> homes;
  std::unordered_set<std::string> known;  // bases, which many may show, and homes of directories: those of a damaged tree may lie in each other
  const auto begun = attempt(Wait::yes, [&](const Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_ASSIGN(Inode * inode, find_directory(dir));
    LSMFS_TRY(settle(lock, open_group().empty() ? open_group().number - 1 : open_group().number));
    as_of = below_changes_;
    homes = {inode->data_home()};
    return {};
  });
  LSMFS_TRY(begun);
  while (!homes.empty()) {
    const std::string home = std::move(homes.back());
    homes.pop_back();
    const std::string begin = keys::entries_begin(home);
    const auto cursor = store_.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(home), .readahead = kRowsReadahead});
    for (cursor->seek(begin); cursor->valid(); cursor->next()) {
      const auto entry = decode_entry(cursor->value());
      const auto* const link = entry ? std::get_if<Link>(&*entry) : nullptr;
      std::optional<Record> record;
      if (link) {
        LSMFS_ASSIGN(const auto row, store_.get(Family::names, keys::linked(link->ino), Wait::yes));
        if (row) record = decode_record(*row);
      } else if (entry) {
        record = std::get<Record>(*entry);
      }
      if (link && !record) continue;  // it has got another place meanwhile, which none that is fixed does; or it is damaged
      if (!record) return make_error(EUCLEAN, "the row of an entry is damaged");
      if (is_fixed(*record)) return make_error(EPERM, "");
      if (!record->is_directory() || record->size == 0) continue;
      std::string below = record->has_base() ? *record->base : record->home_in(home, keys::entry_name(home, cursor->key()));
      if (known.insert(below).second) homes.push_back(std::move(below));
    }
    LSMFS_TRY(cursor->status());
  }
  return as_of;
}

}  // namespace lsmfs
