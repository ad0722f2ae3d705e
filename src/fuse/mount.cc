#include <memory>

#include "fuse/fuse_mount.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<std::unique_ptr<Mount>> Mount::start(Tree& tree, const MountOptions& options,
                                            Administration administration) {
  auto mount = std::make_unique<FuseMount>(tree, options, std::move(administration));
  LSMFS_TRY(mount->begin());
  return std::unique_ptr<Mount>(std::move(mount));
}

}  // namespace lsmfs
