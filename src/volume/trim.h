// Discarding the free space of tables, so that the device below can use it for something else.
//
// Why it cannot take away what a crash would bring back: only what Space calls free is discarded, and
// that is what the next table may overwrite; an extent comes there when no record that is on the
// device, or may still get there, gives it to a file (volume.h, promise 2).
#pragma once

#include "volume/shared.h"

namespace lsmfs {

// As Volume::trim().
Result<ByteCount> trim(Shared& shared, const TrimRange& range, const Stop& stop);

}  // namespace lsmfs
