// The table of request handlers.
#pragma once

#include "fuse/transport/libfuse.h"

namespace lsmfs {

// For fuse_session_new(), with a Context as the session's user data.
const fuse_lowlevel_ops& handlers();

}  // namespace lsmfs
