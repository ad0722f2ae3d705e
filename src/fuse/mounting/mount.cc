#include <memory>

#include "fuse/mounting/fuse_mount.h"
#include "fuse/mounting/mount_process.h"
#include "fuse/serving/handlers.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<std::unique_ptr<Mount>> Mount::start(Tree& tree, const MountOptions& options,
                                            Administration administration) {
  auto mount = std::make_unique<FuseMount>(tree, options, std::move(administration));
  LSMFS_TRY(mount->begin());
  return std::unique_ptr<Mount>(std::move(mount));
}

namespace {

Result<std::shared_ptr<PreparedMount>> prepared_with(std::unique_ptr<Mounter> mounter, const MountOptions& options) {
  LSMFS_ASSIGN(auto handshake, Handshake::make());
  LSMFS_ASSIGN(auto nearness, Nearness::prepare(options.latency, options.io_uring, mounter->may_set_deferring(), options.notice));
  return std::make_shared<PreparedMount>(
      PreparedMount{.mounter = std::move(mounter), .handshake = std::move(handshake), .nearness = std::move(nearness)});
}

}  // namespace

Result<std::shared_ptr<PreparedMount>> prepare_here(const MountOptions& options) {
  return prepared_with(mounter_here(options), options);
}

Result<void> prepare_mount(MountOptions& options) {
  LSMFS_ASSIGN(auto mounter, mounter_apart(options));
  LSMFS_ASSIGN(options.prepared, prepared_with(std::move(mounter), options));
  return {};
}

}  // namespace lsmfs
