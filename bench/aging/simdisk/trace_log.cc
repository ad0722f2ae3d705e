#include "simdisk/trace_log.h"

#include <algorithm>
#include <limits>

namespace lsmfs::simdisk {
namespace {

constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kPiece = 2 * GiB;  // of a request that does not fit one record

TraceEntry entry_of(const TraceRecord& record) {
  return {Nanos(static_cast<std::int64_t>(record.time_and_kind >> 2)),
          {static_cast<Kind>(record.time_and_kind & 3), ByteOffset{record.offset}, ByteCount{record.length}},
          Nanos(record.service)};
}

}  // namespace

bool TraceText::append_next(std::string& out) {
  if (next_ < count_) {
    append_line(out, entry_of((*chunks_[next_ / kChunkRecords])[next_ % kChunkRecords]));
  } else if (next_ == count_ && truncated_) {
    out += kTruncatedLine;
  } else {
    return false;
  }
  ++next_;
  return true;
}

std::string TraceText::read(std::uint64_t offset, std::size_t size) {
  if (offset < position_) {
    next_ = 0;
    position_ = 0;
    pending_.clear();
  }
  while (offset > position_) {
    if (pending_.empty() && !append_next(pending_)) return {};
    const auto skip = std::min<std::uint64_t>(offset - position_, pending_.size());
    pending_.erase(0, skip);
    position_ += skip;
  }
  while (pending_.size() < size && append_next(pending_)) {
  }
  std::string piece = pending_.substr(0, size);
  pending_.erase(0, piece.size());
  position_ += piece.size();
  return piece;
}

void TraceLog::start(Nanos now) {
  // Texts that are still being read keep what they need.
  chunks_.clear();
  count_ = 0;
  truncated_ = false;
  start_ = now;
  on_ = true;
}

void TraceLog::add(Nanos begin, const Request& request, Nanos service) {
  if (!on_) return;
  TraceRecord record;
  const auto time = static_cast<std::uint64_t>(std::max(begin - start_, Nanos(0)).count());
  record.time_and_kind = time << 2 | static_cast<std::uint64_t>(request.kind);
  record.offset = request.offset.v;
  record.service = static_cast<std::uint32_t>(std::clamp<std::int64_t>(service.count(), 0, kMost));
  std::uint64_t left = request.length.v;
  for (; left > kMost; left -= kPiece) {
    record.length = kPiece;
    append(record);
    record.offset += kPiece;
    record.service = 0;
  }
  record.length = static_cast<std::uint32_t>(left);
  append(record);
}

void TraceLog::append(const TraceRecord& record) {
  if (count_ == limit_) {
    truncated_ = true;
    return;
  }
  if (count_ == chunks_.size() * kChunkRecords) chunks_.push_back(std::make_shared<TraceChunk>());
  (*chunks_.back())[count_ % kChunkRecords] = record;
  ++count_;
}

std::unique_ptr<TraceText> TraceLog::text() const {
  return std::make_unique<TraceText>(std::vector<std::shared_ptr<const TraceChunk>>(chunks_.begin(), chunks_.end()), count_,
                                     truncated_);
}

}  // namespace lsmfs::simdisk
