#include "fuse/statx.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fuse/attributes.h"

namespace lsmfs {
namespace {

StatxTime to_statx(const Time& time) { return {time.seconds, time.nanoseconds, 0}; }

}  // namespace

StatxReply to_statx(const Attr& attr) {
  StatxReply out{};
  out.valid_seconds = static_cast<std::uint64_t>(kForever);
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

}  // namespace lsmfs
