// Clones.
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<void> LsmTree::clone(Ino, Ino, std::string_view, Wait) { return make_error(EOPNOTSUPP, ""); }

}  // namespace lsmfs
