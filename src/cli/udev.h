// What udev is told of a volume, since libblkid does not know the format.
#pragma once

#include <string>

#include "lsmfs/volume.h"

namespace lsmfs::cli {

// KEY=VALUE lines with the names, and the ways of writing values, of udev's own "blkid".
std::string udev_properties(const VolumeInfo& info);

}  // namespace lsmfs::cli
