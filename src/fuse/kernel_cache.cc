#include "fuse/kernel_cache.h"

#include <utility>

namespace lsmfs {

void KernelCache::drop(Ino ino, off_t offset, std::function<void()> then) {
  ++busy_;
  thread_.submit([this, ino, offset, then = std::move(then)] {
    // An error says that the kernel does not know the inode any more.
    if (!ended_) (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, offset, 0);
    then();
    --busy_;
  });
}

}  // namespace lsmfs
