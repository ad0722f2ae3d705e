// The ioctl by which root, or who mounted it, has a daemon verify the next part of all that is on its device; on any file or
// directory of the mount. All that there is of a scrub comes with the request and goes with the answer: the daemon keeps
// nothing of it.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>

#include "lsmfs/tree.h"

namespace lsmfs {

struct ScrubMessage {
  std::uint64_t part = 0, next = 0, end = 0;  // ScrubPosition, of the request and of the answer
  std::uint64_t read = 0, left = 0;           // ScrubStep
  std::uint64_t damage = 0;                   // lines of damage
  char text[12 * KiB] = {};                   // as many of them as find a place, each ended by a newline; a 0 at the end
};
// The size in the ioctl's number has 14 bits.
static_assert(sizeof(ScrubMessage) < 16384);

inline constexpr unsigned long kScrubIoctl = _IOWR('L', 0xf8, ScrubMessage);

ScrubPosition position_of(const ScrubMessage& message);
ScrubMessage to_message(const ScrubPosition& position, const ScrubStep& step);
// Lines that found no place are told of in one.
ScrubStep step_of(const ScrubMessage& message);

}  // namespace lsmfs
