#include "volume/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace lsmfs {
namespace {

using format::FrameHeader;
using format::kBlock;

std::uint64_t frame_checksum(Bytes frame, std::uint64_t seed) {
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof header);
  header.checksum = 0;
  const std::uint64_t head = checksum({reinterpret_cast<const std::byte*>(&header), sizeof header}, seed);
  return checksum(frame.subspan(sizeof header, header.payload_length), head);
}

// Reads ahead through the extents in large pieces.
class Window {
 public:
  Window(std::uint64_t total, const ReadExtents& read) : total_(total), read_(read) {}

  // At least `length` bytes at `position`; both must lie within the extents.
  Result<Bytes> at(std::uint64_t position, std::uint64_t length) {
    if (position < start_ || position + length > start_ + filled_) {
      if (buffer_.size() == 0) buffer_ = AlignedBuffer(std::min(kSize, total_));
      start_ = position;
      filled_ = 0;
      const std::uint64_t most = cautious_ ? length : std::min<std::uint64_t>(buffer_.size(), total_ - position);
      auto done = read_(position, buffer_.bytes().first(most));
      if (done) {
        filled_ = most;
      } else if (most > length) {
        // A block that cannot be read may be one that is not asked for.
        cautious_ = true;
        LSMFS_TRY(read_(position, buffer_.bytes().first(length)));
        filled_ = length;
      } else {
        return std::move(done.error());
      }
    }
    return Bytes(buffer_.bytes()).subspan(position - start_, length);
  }
  std::uint64_t total() const { return total_; }

 private:
  static constexpr std::uint64_t kSize = 4 * MiB;
  static_assert(kSize >= format::kFrameMax);
  const std::uint64_t total_;
  const ReadExtents& read_;
  AlignedBuffer buffer_;
  std::uint64_t start_ = 0, filled_ = 0;
  bool cautious_ = false;
};

// The header of the sound frame of this file at `position`, if there is one.
Result<std::optional<FrameHeader>> frame_at(Window& window, std::uint64_t position, std::uint64_t file_id,
                                            std::uint64_t seed) {
  const std::optional<FrameHeader> none;
  if (window.total() - position < kBlock) return none;
  LSMFS_ASSIGN(const Bytes block, window.at(position, kBlock));
  FrameHeader header;
  std::memcpy(&header, block.data(), sizeof header);
  if (header.magic != format::kFrameMagic || header.version != kFormatVersion || header.file_id != file_id) return none;
  if (header.payload_length == 0 || header.payload_length > format::kFramePayloadMax || header.session == 0) return none;
  const std::uint64_t length = frame_length(header.payload_length);
  if (length > window.total() - position) return none;
  LSMFS_ASSIGN(const Bytes frame, window.at(position, length));
  if (frame_checksum(frame, seed) != header.checksum) return none;
  return std::optional<FrameHeader>(header);
}

}  // namespace

std::uint64_t frame_seed(std::uint64_t volume, std::uint64_t file_id, std::uint64_t file_seed) {
  std::string text;
  put_le64(text, volume);
  put_le64(text, file_id);
  put_le64(text, file_seed);
  return checksum(text);
}

void seal_frame(MutableBytes frame, std::uint64_t seed) {
  const std::uint64_t sum = frame_checksum(frame, seed);
  std::memcpy(frame.data() + offsetof(FrameHeader, checksum), &sum, sizeof sum);
}

void cut_frames(std::vector<FrameRef>& frames, std::uint64_t size) {
  while (!frames.empty() && frames.back().offset >= size) frames.pop_back();
  if (!frames.empty()) frames.back().length = std::min(frames.back().length, size - frames.back().offset);
}

Result<LogScan> scan_log(const FileRecord& file, std::uint64_t seed, const ReadExtents& read,
                         const std::function<void(std::string_view)>& salvage) {
  LogScan log;
  Window window(total_length(file.extents), read);
  const auto apply_cut = [&] {
    if (log.size > file.cut_size) {
      log.size = file.cut_size;
      cut_frames(log.frames, log.size);
    }
  };
  for (;;) {
    LSMFS_ASSIGN(const auto header, frame_at(window, log.position, file.id, seed));
    if (!header || header->sequence != log.sequence + 1) break;
    // What an earlier session left behind here does not follow the frame before it.
    if (header->previous_session != log.session) break;
    if (header->offset > log.size) break;
    if (header->offset < log.size) cut_frames(log.frames, header->offset);  // it was shortened in between
    log.frames.push_back(
        {header->offset, log.position + sizeof(FrameHeader), header->payload_length, header->sequence});
    log.size = header->offset + header->payload_length;
    log.sequence = header->sequence;
    log.session = header->session;
    log.position += frame_length(header->payload_length);
    if (log.sequence == file.cut_sequence) apply_cut();
  }
  if (file.cut_sequence > log.sequence) apply_cut();

  const std::uint64_t missing = log.sequence + 1;
  const auto damaged = [&]() -> Result<LogScan> {
    const std::string what = fmt::format("log file {} is damaged: frame {} was synced and cannot be read", file.name, missing);
    if (!salvage) return make_error(EUCLEAN, what);
    salvage(what);
    return std::move(log);
  };
  if (file.synced_sequence >= missing) return damaged();
  for (std::uint64_t at = log.position; at < window.total(); at += kBlock) {
    // Beyond the end nothing needs to be readable.
    const auto header = frame_at(window, at, file.id, seed);
    if (header && *header && (*header)->durable_sequence >= missing) return damaged();
  }
  return log;
}

}  // namespace lsmfs
