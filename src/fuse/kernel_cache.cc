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

void KernelCache::note_read_in(Ino dir) {
  if (read_in_ == dir.v) return;
  const Ino left{read_in_.exchange(dir.v)};
  if (left.v != 0 && left != dir && listed_.take(left)) drop_pages(left, [] {});
}

void KernelCache::drop_attributes(Ino ino) { (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, -1, 0); }

}  // namespace lsmfs
