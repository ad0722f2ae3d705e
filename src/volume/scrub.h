// Verifying what is on the device of an open volume, beside everything else that goes on.
//
// What keeps it from taking something half written for damage: of a log file only frames are read that are durable; of the
// metadata log a copy is taken while nothing is appended; the superblocks change under a lock of theirs; and the space of a
// file is not given away while somebody reads it.
#pragma once

#include <memory>
#include <vector>

#include "volume/file.h"
#include "volume/shared.h"

namespace lsmfs {

// As Volume::scrub(), of a range that has begun. Number 0 stands for what is no file. `files`: by their numbers.
Result<ScrubStep> scrub(Shared& shared, const std::vector<std::shared_ptr<File>>& files, ScrubRange& range, const Stop& stop);

}  // namespace lsmfs
