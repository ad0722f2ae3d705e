#include "fuse/serving/attributes.h"

namespace lsmfs {
namespace {

timespec to_timespec(const Time& t) { return {t.seconds, static_cast<long>(t.nanoseconds)}; }
Time to_time(const timespec& t) { return {t.tv_sec, static_cast<std::uint32_t>(t.tv_nsec)}; }

}  // namespace

struct stat to_stat(const Attr& attr) {
  struct stat out {};
  out.st_ino = attr.ino.v;
  out.st_mode = attr.mode;
  out.st_nlink = attr.nlink;
  out.st_uid = attr.uid;
  out.st_gid = attr.gid;
  out.st_rdev = attr.rdev;
  out.st_size = static_cast<off_t>(attr.size);
  out.st_blocks = static_cast<blkcnt_t>(attr.blocks);
  out.st_blksize = kBlockSize;
  out.st_atim = to_timespec(attr.atime);
  out.st_mtim = to_timespec(attr.mtime);
  out.st_ctim = to_timespec(attr.ctime);
  return out;
}

fuse_entry_param to_entry(const Attr& attr) {
  fuse_entry_param entry{};
  entry.ino = attr.ino.v;
  entry.attr = to_stat(attr);
  entry.attr_timeout = kForever;
  entry.entry_timeout = kForever;
  return entry;
}

fuse_entry_param negative_entry() {
  fuse_entry_param entry{};
  entry.entry_timeout = kForever;
  return entry;
}

AttrChange to_change(const struct stat& values, int to_set) {
  AttrChange change;
  if (to_set & FUSE_SET_ATTR_MODE) change.mode = values.st_mode & 07777;
  if (to_set & FUSE_SET_ATTR_UID) change.uid = values.st_uid;
  if (to_set & FUSE_SET_ATTR_GID) change.gid = values.st_gid;
  if (to_set & FUSE_SET_ATTR_SIZE) change.size = static_cast<std::uint64_t>(values.st_size);
  if (to_set & FUSE_SET_ATTR_ATIME) change.atime = to_time(values.st_atim);
  if (to_set & FUSE_SET_ATTR_MTIME) change.mtime = to_time(values.st_mtim);
  if (to_set & FUSE_SET_ATTR_CTIME) change.ctime = to_time(values.st_ctim);
  // With the writeback cache the kernel says what time it is now, but of access.
  const bool mtime_now = (to_set & FUSE_SET_ATTR_MTIME_NOW) || (change.mtime && change.mtime == change.ctime);
  change.touches = (to_set & FUSE_SET_ATTR_ATIME_NOW) && mtime_now;
  if (to_set & (FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW)) {
    const Time now = Time::now();
    if (to_set & FUSE_SET_ATTR_ATIME_NOW) change.atime = now;
    if (to_set & FUSE_SET_ATTR_MTIME_NOW) change.mtime = now;
  }
  return change;
}

int reply_code(const Error& error) {
  // The kernel drops a reply whose error is 512 or more, and the caller would hang. ENOSYS would
  // make it never send that kind of request again.
  if (error.code <= 0 || error.code >= 512 || error.code == ENOSYS) return EIO;
  // What ext4 and btrfs say of damage, and what programs expect.
  if (error.code == EUCLEAN) return EIO;
  return error.code;
}

}  // namespace lsmfs
