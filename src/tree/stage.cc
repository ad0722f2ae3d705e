// Directories that get their name when all that is to lie below them has been made: as of one commit it is there as a whole. Until then such a
// directory is an orphan with entries, as one is that remove_tree() has taken away. So a crash leaves what a sweep takes away.
#include <sys/stat.h>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<Attr> LsmTree::stage(Ino dir_ino, std::string_view name, const NewInode& what, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    if (!S_ISDIR(what.mode)) return make_error(ENOTDIR, "");
    if (name.empty() || name.find('/') != name.npos) return make_error(EINVAL, "");
    if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
    LSMFS_TRY(may_add_to(*dir));
    LSMFS_TRY(need_room_for_names(kRecordRoom));
    LSMFS_ASSIGN(const Inherited inherited, inherit(lock, *dir, what));
    return add_unnamed(*dir, name, what, inherited);
  });
}

// Nobody holds on to it any more, so it will not get a name.
void LsmTree::give_up(Inode& staged) {
  staged.linkable = false;
  if (staged.record.size == 0) return;
  ++removals_;
  removed_trees_.push_front({staged.ino()});
  upkeep_.removed_tree(clock_.now());
  look_again_in_time();
}

}  // namespace lsmfs
