// The table of request handlers.
#pragma once

#include "fuse/libfuse.h"
#include "lsmfs/base.h"

namespace lsmfs {

// Bytes in one READ or WRITE, at most.
inline constexpr unsigned kTransferMax = 1 * MiB;

// For fuse_session_new(), with a Context as the session's user data.
const fuse_lowlevel_ops& handlers();

}  // namespace lsmfs
