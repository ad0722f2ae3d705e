// STATX, which Linux 6.6 and newer send when somebody asks for the time of birth, and libfuse before
// 3.18 does not know. The structures are those of linux/fuse.h, whose older versions lack them.
#pragma once

#include <cstdint>

#include "lsmfs/tree.h"

namespace lsmfs {

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

}  // namespace lsmfs
