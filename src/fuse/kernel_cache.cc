#include "fuse/kernel_cache.h"

#include <utility>

namespace lsmfs {

// Where the kernel gives an error, it does not know the inode any more.

void KernelCache::drop_pages(Ino ino, std::function<void()> then) {
  ++busy_;
  thread_.submit([this, ino, then = std::move(then)] {
    const Waiting waiting("the kernel, which forgets pages");
    if (!ended_) (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, 0, 0);
    then();
    --busy_;
  });
}

void KernelCache::drop_attributes(Ino ino) { (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, -1, 0); }

}  // namespace lsmfs
