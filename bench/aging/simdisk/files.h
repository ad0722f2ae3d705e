// The four files of the mount, as libfuse calls: disk, profile, stats, trace (see README.md).
//
// Handlers run in the server's loop and answer at once, but for the requests of the disk, which go to `disk` and are
// answered from there, and reads of the trace, whose text the workers make.
#pragma once

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

#include "simdisk/disk.h"

namespace lsmfs::simdisk {

// What the handlers work on; the user data of the session. All members outlive it.
struct Mounted {
  Disk& disk;
  Workers& workers;
  Buffers& buffers;  // of a size that holds any request of the kernel and its headers
  timespec since;                // the time of all files
  Buffers::Buffer message = {};  // the request that is being handled; a handler may take it
  bool initialised = false;      // the kernel and libfuse have agreed
};

// The largest read or write that the kernel asks for at once.
inline constexpr std::uint32_t kTransferMax = 1 * MiB;
// Requests that the kernel may have under way: what the queue of a loop device (128) becomes when the last part of each
// of its requests, of up to 1280 KiB, makes one of its own.
inline constexpr unsigned kBackgroundMax = 256;

const fuse_lowlevel_ops& file_operations();

}  // namespace lsmfs::simdisk
