// Requests as they come from the kernel: how large they are, and what follows the header, for the few that are read past libfuse.
#pragma once

#include <linux/fuse.h>

#include <cstring>

#include "lsmfs/base.h"

namespace lsmfs {

// Bytes in one READ or WRITE, at most.
inline constexpr unsigned kTransferMax = 1 * MiB;

// Must hold: the message is whole, and of the kind that has such a body.
template <class Body>
Body body_of(const fuse_in_header& request) {
  Body body;
  std::memcpy(&body, reinterpret_cast<const char*>(&request) + sizeof request, sizeof body);
  return body;
}

}  // namespace lsmfs
