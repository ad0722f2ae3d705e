#include <memory>

#include "fuse/fuse_mount.h"
#include "fuse/handlers.h"
#include "fuse/mount_process.h"
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
  auto prepared = std::make_shared<PreparedMount>(PreparedMount{.mounter = std::move(mounter), .handshake = std::move(handshake)});
  LSMFS_ASSIGN(prepared->latency_device, LatencyHold::open_device(options.latency));
  LSMFS_ASSIGN(prepared->rings, Rings::make(options.io_uring, kTransferMax));
  prepared->may_defer = prepared->mounter->may_set_deferring();
  return prepared;
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
