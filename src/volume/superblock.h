// The superblock: where everything is, twice on the device.
#pragma once

#include <array>

#include "lsmfs/volume.h"
#include "volume/format.h"

namespace lsmfs {

// The regions of a volume, in the order in which they lie on the device.
struct Layout {
  Extent metadata[2];
  Extent fixed;
  Extent table;
  std::uint64_t second_superblock = 0;
};

// The layout of a new volume. ENOSPC below kDeviceMin.
Result<Layout> plan_layout(std::uint64_t device_size);

struct SuperblockInfo {
  VolumeInfo info;
  Layout layout;
  std::array<std::uint8_t, sizeof(format::Superblock::rest)> rest{};  // written again as it was read
  // Seed of the checksums of metadata records: a record of another volume is never mistaken for ours.
  std::uint64_t metadata_seed() const;
};

std::uint64_t second_superblock_offset(std::uint64_t device_size);
// How long each metadata area may be: areas are read whole, so that this must not be a stranger's choice.
std::uint64_t metadata_area_max(std::uint64_t device_size);

void encode_superblock(const SuperblockInfo& info, format::Superblock& out);
// EMEDIUMTYPE (no magic), EUCLEAN (checksum or a value), EPROTONOSUPPORT (another version, or an unknown incompatible feature).
Result<SuperblockInfo> decode_superblock(const format::Superblock& block);

// The first copy that is sound, as read_volume_info() promises.
Result<SuperblockInfo> read_superblock(Device& device, const VolumeOptions& options);
// Writes both copies, the second one first; does not flush.
Result<void> write_superblocks(Device& device, const SuperblockInfo& info);

}  // namespace lsmfs
