// A step of telling what two directories do not have in common. It is read without the lock, from rows as they were at one moment.
#include <optional>
#include <utility>

#include "tree/difference_walk.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<DifferencesStep> LsmTree::differences(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) {
  if (!comparing_.try_lock()) return make_error(EBUSY, "");  // one thread at a time is enough for this
  auto step = differences_of(a, b, asked, stop);
  comparing_.unlock();
  return step;
}

Result<DifferencesStep> LsmTree::differences_of(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) {
  struct Begun {
    Seen a, b;
    std::unique_ptr<Cursor> rows;
  };
  // All is committed, so what is in memory is as the rows say.
  auto begun = attempt(Wait::yes, [&](const Lock& lock) LSMFS_LOCKED -> Result<Begun> {
    LSMFS_ASSIGN(const Inode* left, find_directory(a));
    LSMFS_ASSIGN(const Inode* right, find_directory(b));
    LSMFS_TRY(settle(lock, open_group().empty() ? open_group().number - 1 : open_group().number));
    const auto seen = [](const Inode& inode) { return Seen{.record = inode.record, .home = inode.data_home(), .xattr_home = inode.xattr_home()}; };
    return Begun{seen(*left), seen(*right), store_.cursor(Family::names, {.lower = {}, .upper = {}})};
  });
  if (!begun) return begun.error().code == ENOENT ? make_error(ESTALE, "") : std::move(begun.error());
  NamesView view(std::move(begun->rows), stop);
  return DifferenceWalk(view, asked.most).step(begun->a, begun->b, asked);
}

}  // namespace lsmfs
