#include "fuse/serving/newer.h"

#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fuse/serving/attributes.h"
#include "fuse/transport/message.h"

namespace lsmfs {
namespace {

StatxTime to_statx(const Time& time) { return {time.seconds, time.nanoseconds, 0}; }

}  // namespace

StatxReply to_statx(const Attr& attr) {
  StatxReply out{};
  out.valid_seconds = static_cast<std::uint64_t>(kForever);
  out.attributes = (attr.flags & FS_IMMUTABLE_FL ? STATX_ATTR_IMMUTABLE : 0) |
                   (attr.flags & FS_APPEND_FL ? STATX_ATTR_APPEND : 0) | (attr.flags & FS_NODUMP_FL ? STATX_ATTR_NODUMP : 0);
  out.attributes_mask = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND | STATX_ATTR_NODUMP;
  out.mask = STATX_BASIC_STATS | STATX_BTIME;
  out.block_size = kBlockSize;
  out.nlink = attr.nlink;
  out.uid = attr.uid;
  out.gid = attr.gid;
  out.mode = static_cast<std::uint16_t>(attr.mode);
  out.ino = attr.ino.v;
  out.size = attr.size;
  out.blocks = attr.blocks;
  out.atime = to_statx(attr.atime);
  out.btime = to_statx(attr.btime);
  out.ctime = to_statx(attr.ctime);
  out.mtime = to_statx(attr.mtime);
  out.rdev_major = major(attr.rdev);
  out.rdev_minor = minor(attr.rdev);
  return out;
}

std::uint32_t tmpfile_mode(const fuse_in_header& request) {
  return body_of<fuse_create_in>(request).mode & 07777;
}

std::uint32_t tmpfile_umask(const fuse_in_header& request) { return body_of<fuse_create_in>(request).umask; }

TmpfileReply to_tmpfile(const Attr& attr) {
  TmpfileReply out{};
  out.entry.nodeid = attr.ino.v;
  out.entry.entry_valid = out.entry.attr_valid = static_cast<std::uint64_t>(kForever);
  fuse_attr& a = out.entry.attr;
  a.ino = attr.ino.v;
  a.size = attr.size;
  a.blocks = attr.blocks;
  a.atime = static_cast<std::uint64_t>(attr.atime.seconds);
  a.mtime = static_cast<std::uint64_t>(attr.mtime.seconds);
  a.ctime = static_cast<std::uint64_t>(attr.ctime.seconds);
  a.atimensec = attr.atime.nanoseconds;
  a.mtimensec = attr.mtime.nanoseconds;
  a.ctimensec = attr.ctime.nanoseconds;
  a.mode = attr.mode;
  a.nlink = attr.nlink;
  a.uid = attr.uid;
  a.gid = attr.gid;
  a.blksize = kBlockSize;
  out.open.open_flags = FOPEN_KEEP_CACHE;
  return out;
}

}  // namespace lsmfs
