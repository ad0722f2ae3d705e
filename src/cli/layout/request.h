// A request as the kernel issues it to a disk.
#pragma once

#include <cstdint>
#include <string_view>

#include "lsmfs/base.h"

namespace lsmfs::cli {

inline constexpr std::uint64_t kSector = 512;  // bytes; the kernel's unit, whatever the disk's is

// A disk as the kernel's events name it, which is not the dev_t of the C library.
using DiskNumber = std::uint32_t;
constexpr DiskNumber disk_number(unsigned major, unsigned minor) { return major << 20 | minor; }

// other: zones, passed-through commands, and zeros that the disk writes by itself.
enum class RequestKind : std::uint8_t { read, write, flush, discard, other };

// By the letters of an event, blk_fill_rwbs() of the kernel: an F that goes before a write is a flush on the way; then what
// it is; then F (forced to the medium), A (read-ahead), S (synchronous), M (metadata), ...
RequestKind kind_of(std::string_view rwbs);

struct BlockRequest {
  std::uint64_t time_ns = 0;  // CLOCK_MONOTONIC
  DiskNumber disk = 0;
  RequestKind kind = RequestKind::other;
  ByteOffset offset;  // on the disk
  ByteCount bytes;    // 0: a flush alone
};

}  // namespace lsmfs::cli
