// How much a snapshot has, and how much of that nobody else has. Both are read without the lock, from rows as they were at one moment.
#include <optional>
#include <utility>

#include "tree/freed_bytes.h"
#include "tree/lsm_tree.h"
#include "tree/names_view.h"

namespace lsmfs {

Result<SnapshotSizes> LsmTree::snapshot_sizes(Ino ino, const Stop& stop) {
  if (!sizing_.try_lock()) return make_error(EBUSY, "");  // one thread at a time is enough for this
  auto sizes = sizes_of(ino, stop);
  sizing_.unlock();
  return sizes;
}

Result<SnapshotSizes> LsmTree::sizes_of(Ino ino, const Stop& stop) {
  // The first is read in order. The second goes to and fro, and would read ahead in vain.
  struct Begun {
    std::string dir_home, name;
    std::unique_ptr<Cursor> in_order, anywhere;
  };
  while (!stop()) {
    std::optional<std::uint64_t> group;
    auto begun = attempt(Wait::yes, [&](const Lock& lock) LSMFS_LOCKED -> Result<Begun> {
      LSMFS_ASSIGN(const Inode* inode, find_directory(ino));
      if (!inode->record.snapshot_of) return make_error(EINVAL, "");
      if (!group) group = open_group().empty() ? open_group().number - 1 : open_group().number;
      LSMFS_TRY(settle(lock, *group));
      const CursorOptions all{.lower = {}, .upper = {}};
      return Begun{*inode->dir_home, inode->name, store_.cursor(Family::names, {.lower = {}, .upper = {}, .readahead = kRowsReadahead}), store_.cursor(Family::names, all)};
    });
    if (!begun) return std::move(begun.error());
    NamesView in_order(std::move(begun->in_order), stop), anywhere(std::move(begun->anywhere), stop);
    LSMFS_ASSIGN(const auto row, anywhere.entry(begun->dir_home, begun->name));
    const Record* const record = row ? std::get_if<Record>(&*row) : nullptr;
    if (!record || record->ino != ino) continue;  // it gets another name just now
    const std::string home = record->home_in(begun->dir_home, begun->name);
    ReferredBytes referred(in_order, referred_);
    LSMFS_ASSIGN(const ByteCount refers, referred.below(*record, home));
    FreedBytes freed(anywhere);
    LSMFS_ASSIGN(const ByteCount alone, freed.without(*record, home));
    return SnapshotSizes{.alone = alone, .refers = refers};
  }
  return make_error(EINTR, "");
}

}  // namespace lsmfs
