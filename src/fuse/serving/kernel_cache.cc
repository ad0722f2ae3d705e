#include "fuse/serving/kernel_cache.h"

#include <linux/fuse.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>

namespace lsmfs {
namespace {

template <class Value>
Bytes bytes_of(const Value& value) {
  return std::as_bytes(std::span(&value, 1));
}

// FUSE_NOTIFY_PRUNE and its message, of linux/fuse.h since Linux 6.18: the numbers of the inodes follow.
constexpr std::int32_t kNotifyPrune = 9;
struct Prune {
  std::uint32_t count, padding;
  std::uint64_t spare;
};
static_assert(sizeof(Prune) == 16 && sizeof(Ino) == 8);

// FUSE_NOTIFY_INVAL_ENTRY with its flags, which it has since Linux 6.2. An older kernel passes over FUSE_EXPIRE_ONLY, and lets go of what
// lies below at once.
struct InvalidEntry {
  std::uint64_t parent;
  std::uint32_t name_size, flags;
};
static_assert(sizeof(InvalidEntry) == 16);
constexpr std::uint32_t kExpireOnly = 1;

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

void KernelCache::drop_listings(std::vector<Ino> dirs) {
  if (dirs.empty()) return;
  submit(inodes_thread_, "the kernel, which forgets listings", [this, dirs = std::move(dirs)] {
    for (const Ino dir : dirs) {
      if (!ended_) (void)fuse_lowlevel_notify_inval_inode(session_, dir.v, 0, 0);
    }
  });
}

int KernelCache::notify(std::int32_t kind, Bytes begin, Bytes rest) {
  const std::size_t size = begin.size() + rest.size();
  fuse_out_header header{.len = static_cast<std::uint32_t>(sizeof header + size), .error = kind, .unique = 0};
  const auto part = [](Bytes bytes) { return iovec{const_cast<std::byte*>(bytes.data()), bytes.size()}; };
  const iovec parts[] = {{&header, sizeof header}, part(begin), part(rest)};
  return writev(fuse_session_fd(session_), parts, std::size(parts)) < 0 ? errno : 0;
}

void KernelCache::drop_inodes(std::vector<Ino> inodes) {
  ++drops_begun_;
  submit(inodes_thread_, "the kernel, which forgets inodes", [this, inodes = std::move(inodes)] {
    if (!ended_ && can_drop_inodes_) {
      Prune prune{};
      prune.count = static_cast<std::uint32_t>(inodes.size());
      if (notify(kNotifyPrune, bytes_of(prune), std::as_bytes(std::span(inodes))) == EINVAL) can_drop_inodes_ = false;
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

void KernelCache::expire(Ino dir, const std::string& name) {
  const InvalidEntry entry{.parent = dir.v, .name_size = static_cast<std::uint32_t>(name.size()), .flags = kExpireOnly};
  if (!ended_) (void)notify(FUSE_NOTIFY_INVAL_ENTRY, bytes_of(entry), as_bytes({name.c_str(), name.size() + 1}));
}

// Who looks for the name when it has expired asks the daemon, and then the kernel drops the old directory by itself. So one that has been made
// under that name since is left alone. Only one that is made between is_back() and the message is dropped, and found again by the next look-up.
void KernelCache::drop_tree(Ino dir, std::string name, std::function<bool()> is_back, std::function<void()> then) {
  submit(names_thread_, "the kernel, which forgets a name", [this, dir, name = std::move(name), is_back = std::move(is_back), then = std::move(then)] {
    expire(dir, name);
    then();
    submit(inodes_thread_, "the kernel, which forgets a directory", [this, dir, name, is_back] {
      if (!ended_ && !is_back()) (void)fuse_lowlevel_notify_inval_entry(session_, dir.v, name.c_str(), name.size());
    });
  });
}

// The kernel keeps names that are not there, too, so those that have come are told as well.
void KernelCache::drop_contents(Ino dir, std::vector<std::string> old, std::vector<std::string> now, std::function<bool(const std::string&)> is_back,
                                std::function<void()> then) {
  std::vector<std::string> all = std::move(now);
  all.insert(all.end(), old.begin(), old.end());
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  submit(names_thread_, "the kernel, which forgets names", [this, dir, old = std::move(old), all = std::move(all), is_back = std::move(is_back), then = std::move(then)] {
    for (const std::string& name : all) expire(dir, name);
    if (!ended_) (void)fuse_lowlevel_notify_inval_inode(session_, dir.v, 0, 0);
    then();
    submit(inodes_thread_, "the kernel, which forgets what lay in a directory", [this, dir, old, is_back] {
      for (const std::string& name : old) {
        if (!ended_ && !is_back(name)) (void)fuse_lowlevel_notify_inval_entry(session_, dir.v, name.c_str(), name.size());
      }
    });
  });
}

void KernelCache::drop_entries(std::vector<SweptEntry> entries) {
  submit(inodes_thread_, "the kernel, which forgets names", [this, entries = std::move(entries)] {
    for (const auto& [dir, name, ino] : entries) {
      if (ended_) return;
      (void)fuse_lowlevel_notify_inval_entry(session_, dir.v, name.c_str(), name.size());
      drop_attributes(ino);  // its link count has changed
    }
  });
}

void KernelCache::drop_attributes(Ino ino) { (void)fuse_lowlevel_notify_inval_inode(session_, ino.v, -1, 0); }

}  // namespace lsmfs
