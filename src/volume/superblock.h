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
// That of a volume which is given another size: only its table region ends elsewhere. ENOSPC: too small; EFBIG: too large for its regions.
Result<Layout> layout_for(const Layout& now, std::uint64_t device_size);

struct SuperblockInfo {
  VolumeInfo info;
  Layout layout;
  std::array<std::uint8_t, sizeof(format::Superblock::rest)> rest{};  // written again as it was read
  // Of the checksums of metadata records and frames: those of another volume are never mistaken for ours. It stays when the UUID changes.
  std::uint64_t seed = 0;
};

// For a new volume.
std::uint64_t seed_for(const Uuid& uuid);

std::uint64_t second_superblock_offset(std::uint64_t device_size);
// How long each metadata area may be: areas are read whole, so that this must not be a stranger's choice. A volume that has shrunk may have
// longer ones than a new one.
std::uint64_t metadata_area_max(std::uint64_t device_size);

void encode_superblock(const SuperblockInfo& info, format::Superblock& out);
// EMEDIUMTYPE (no magic), EUCLEAN (checksum or a value), EPROTONOSUPPORT (another version, or an unknown incompatible feature).
Result<SuperblockInfo> decode_superblock(const format::Superblock& block);

// The first copy that is sound, as read_volume_info() promises.
Result<SuperblockInfo> read_superblock(Device& device, const VolumeOptions& options);
AlignedBuffer superblock_block(const SuperblockInfo& info);  // encoded, to be written
// One copy; does not flush.
Result<void> write_superblock(Device& device, const SuperblockInfo& info, std::uint64_t at);
// Both copies, the second one first; does not flush.
Result<void> write_superblocks(Device& device, const SuperblockInfo& info);

}  // namespace lsmfs
