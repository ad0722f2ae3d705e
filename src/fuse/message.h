// What follows the header of a request as it came from the kernel, for the few that are read past libfuse.
#pragma once

#include <linux/fuse.h>

#include <cstring>

namespace lsmfs {

// Must hold: the message is whole, and of the kind that has such a body.
template <class Body>
Body body_of(const fuse_in_header& request) {
  Body body;
  std::memcpy(&body, reinterpret_cast<const char*>(&request) + sizeof request, sizeof body);
  return body;
}

}  // namespace lsmfs
