// A process that mounts and unmounts for another one, which then needs no privileges to do so.
//
// It knows from its start what to mount and where, and hears nothing but which of a Mounter's functions to call, and for which
// of the other one's threads: whoever has taken over that process gets no more from it than the end of this mount. It ends
// when the other one does, and tells MountOptions::died unless it has heard that this is the end.
#pragma once

#include <memory>

#include "fuse/mounting/mounter.h"

namespace lsmfs {

// The name by which ps(1) tells it from the process that it serves.
inline constexpr const char* kMounterName = "lsmfs-mounter";

// Starts it. Must hold: the calling process has no other thread. The destructor waits for its end.
// Errors: EMFILE, ENOMEM and the like.
Result<std::unique_ptr<Mounter>> mounter_apart(const MountOptions& options);

}  // namespace lsmfs
