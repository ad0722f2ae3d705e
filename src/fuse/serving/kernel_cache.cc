#include "fuse/serving/kernel_cache.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <utility>

namespace lsmfs {
namespace {

// FUSE_NOTIFY_PRUNE and its message, of linux/fuse.h since Linux 6.18: the numbers of the inodes follow.
constexpr std::int32_t kNotifyPrune = 9;
struct Prune {
  std::uint32_t count, padding;
  std::uint64_t spare;
};
static_assert(sizeof(Prune) == 16 && sizeof(Ino) == 8);

}  // namespace

// Where the kernel gives an error, it does not know the inode any more.

// Runs `work` in a thread that may wait for the kernel.
void KernelCache::submit(Workers& thread, const char* waits_for, std::function<void()> work) {
  ++busy_;
  thread.submit([this, waits_for, work = std::move(work)] {
    const Waiting waiting(waits_for);
    work();
    --busy_;
  });
}

void KernelCache::drop_pages(Ino ino, std::function<void()> then) {
  submit(pages_thread_, "the kernel, which forgets pages", [this, ino, then = std::move(then)] {
    if (!ended_) (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, 0, 0);
    then();
  });
}

void KernelCache::drop_inodes(std::vector<Ino> inodes) {
  ++drops_begun_;
  submit(inodes_thread_, "the kernel, which forgets inodes", [this, inodes = std::move(inodes)] {
    if (!ended_ && can_drop_inodes_) {
      Prune prune{};
      prune.count = static_cast<std::uint32_t>(inodes.size());
      const std::size_t size = sizeof prune + inodes.size() * sizeof(Ino);
      fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof header + size), .error = kNotifyPrune, .unique = 0};
      const iovec parts[] = {{&header, sizeof header}, {&prune, sizeof prune}, {const_cast<Ino*>(inodes.data()), inodes.size() * sizeof(Ino)}};
      if (writev(fuse_session_fd(session_), parts, std::size(parts)) < 0 && errno == EINVAL) can_drop_inodes_ = false;
    }
    ++drops_done_;
  });
}

// What is asked for while inodes go, and what had been asked for when they had gone: the kernel has one listing of a process
// under way at a time.
bool KernelCache::doubts_listing() {
  const std::uint64_t done = drops_done_;
  return drops_begun_ != done || drops_heeded_.exchange(done) != done;
}

void KernelCache::note_read_in(Ino dir) {
  if (read_in_ == dir.v) return;
  const Ino left{read_in_.exchange(dir.v)};
  if (left.v != 0 && left != dir && listed_.take(left)) drop_pages(left, [] {});
}

void KernelCache::drop_attributes(Ino ino) { (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, -1, 0); }

}  // namespace lsmfs
