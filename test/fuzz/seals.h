// Puts the right checksums into structures of a volume that were changed, so that decoders get to see what lies behind.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "volume/frames.h"
#include "volume/superblock.h"

namespace lsmfs::fuzz {

inline void seal(format::Superblock& block) {
  block.checksum = 0;
  block.checksum = checksum({reinterpret_cast<const std::byte*>(&block), sizeof block});
}

// A record of the metadata log, whose area ends with `area`. What is no record, or too long, stays as it is.
inline void seal_record(MutableBytes area, std::uint64_t seed) {
  format::RecordHeader header;
  if (area.size() < sizeof header) return;
  std::memcpy(&header, area.data(), sizeof header);
  if (header.payload_length > area.size() - sizeof header) return;
  header.checksum = 0;
  const std::uint64_t head = checksum({reinterpret_cast<const std::byte*>(&header), sizeof header}, seed);
  header.checksum = checksum(Bytes(area).subspan(sizeof header, header.payload_length), head);
  std::memcpy(area.data(), &header, sizeof header);
}

// Likewise a frame, whose extent ends with `room`.
inline void seal_if_frame(MutableBytes room, std::uint64_t seed) {
  format::FrameHeader header;
  if (room.size() < sizeof header) return;
  std::memcpy(&header, room.data(), sizeof header);
  if (header.payload_length <= room.size() - sizeof header) seal_frame(room, seed);
}

}  // namespace lsmfs::fuzz
