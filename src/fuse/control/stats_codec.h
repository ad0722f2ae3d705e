// The numbers of a mount as bytes (StatsMessage), in parts: the first has those of the layers and the programs, each further one as
// many kinds of requests as find a place. Each part is of a moment of its own.
//
// All numbers are varints. Of a histogram those of buckets that are not empty follow each other: how far from the last one, and how many.
#pragma once

#include "fuse/control/requests.h"

namespace lsmfs {

// Changes with what the bytes mean.
inline constexpr std::uint32_t kStatsVersion = 1;

// The answer to a request for a part. EINVAL: there is no such part.
Result<StatsMessage> to_message(const MountStats& stats, const StatsMessage& request);
// Puts a part into `stats`. Errors: EPROTO, with a whole line as context: of another version, or damaged.
Result<void> take_part(const StatsMessage& answer, std::uint32_t part, MountStats& stats);

}  // namespace lsmfs
