// Frames: how a log file lies in its extents, so that what is there can be found again without any
// metadata. A frame begins at a block, holds a header and up to 1 MiB of the file, and says after
// which session's frames it comes, so that neither an earlier file in the same extents nor an
// earlier, lost end of the same file is ever read as part of it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "volume/catalog.h"

namespace lsmfs {

// Where a frame's payload is. Positions count through the file's extents.
struct FrameRef {
  std::uint64_t offset = 0;    // in the file
  std::uint64_t position = 0;  // of the payload
  std::uint64_t length = 0;
  std::uint64_t sequence = 0;
};

inline std::uint64_t frame_length(std::uint64_t payload) {
  return round_up(sizeof(format::FrameHeader) + payload, format::kBlock);
}

// `volume`: SuperblockInfo::seed.
std::uint64_t frame_seed(std::uint64_t volume, std::uint64_t file_id, std::uint64_t file_seed);

// Sums header and payload that are at the front of `frame` and sets the checksum there.
void seal_frame(MutableBytes frame, std::uint64_t seed);

struct LogScan {
  std::vector<FrameRef> frames;
  std::uint64_t size = 0;      // of the file
  std::uint64_t sequence = 0;  // of the last frame, 0 when there is none
  std::uint64_t session = 0;   // its session
  std::uint64_t position = 0;  // where the next frame goes
};

// Reads bytes of the file's extents; positions and lengths are multiples of the block.
using ReadExtents = std::function<Result<void>(std::uint64_t position, MutableBytes to)>;

// Finds the frames of a log. A torn end that was not synced is normal. EUCLEAN when a frame that was durable is missing;
// or that is said to `salvage`, if it is given, and the log ends there.
Result<LogScan> scan_log(const FileRecord& file, std::uint64_t seed, const ReadExtents& read,
                         const std::function<void(std::string_view)>& salvage = {});

// Drops what lies at or past `size`.
void cut_frames(std::vector<FrameRef>& frames, std::uint64_t size);

}  // namespace lsmfs
