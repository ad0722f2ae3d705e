// Requests that libfuse does not know in every version: TMPFILE (Linux 6.2, libfuse 3.17), and STATX (6.6,
// 3.18), which is sent when somebody asks for the time of birth. The structures are those of
// linux/fuse.h, whose older versions lack some.
#pragma once

#include <linux/fuse.h>

#include <cstdint>

#include "lsmfs/tree.h"

namespace lsmfs {

inline constexpr std::uint32_t kTmpfileOpcode = 51;
inline constexpr std::uint32_t kStatxOpcode = 52;

struct StatxTime {
  std::int64_t seconds;
  std::uint32_t nanoseconds;
  std::int32_t reserved;
};

struct StatxReply {
  std::uint64_t valid_seconds;      // how long the kernel may keep it
  std::uint32_t valid_nanoseconds;
  std::uint32_t flags;
  std::uint64_t spare[2];
  std::uint32_t mask;               // STATX_* that are filled in
  std::uint32_t block_size;
  std::uint64_t attributes;
  std::uint32_t nlink, uid, gid;
  std::uint16_t mode, spare0;
  std::uint64_t ino, size, blocks, attributes_mask;
  StatxTime atime, btime, ctime, mtime;
  std::uint32_t rdev_major, rdev_minor, dev_major, dev_minor;
  std::uint64_t spare2[14];
};
static_assert(sizeof(StatxReply) == 32 + 256);

StatxReply to_statx(const Attr& attr);

struct TmpfileReply {
  fuse_entry_out entry;
  fuse_open_out open;
};

// The permission bits that a TMPFILE asks for, and the caller's umask. Must hold: the message is whole.
std::uint32_t tmpfile_mode(const fuse_in_header& request);
std::uint32_t tmpfile_umask(const fuse_in_header& request);
TmpfileReply to_tmpfile(const Attr& attr);

}  // namespace lsmfs
