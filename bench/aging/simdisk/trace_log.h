// The log of a disk's requests: millions of them in 24 bytes each, and a text of it that can be read piece by piece.
//
// It has a limit; what comes after it is dropped, and the text then ends with kTruncatedLine.
//
// Threads: a TraceLog has one user at a time. A TraceText may be read by another thread while the log goes on: it only
// looks at entries that were there when it was made.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "simdisk/trace_line.h"

namespace lsmfs::simdisk {

// One request as it is kept. Moments and offsets are exact; a service time over four seconds is cut there.
struct TraceRecord {
  std::uint64_t time_and_kind = 0;  // nanoseconds << 2 | kind
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint32_t service = 0;  // nanoseconds
};
static_assert(sizeof(TraceRecord) == 24);

inline constexpr std::size_t kChunkRecords = 1 << 16;
using TraceChunk = std::array<TraceRecord, kChunkRecords>;

// The text of a log as it was at one moment.
class TraceText {
 public:
  TraceText(std::vector<std::shared_ptr<const TraceChunk>> chunks, std::size_t count, bool truncated)
      : chunks_(std::move(chunks)), count_(count), truncated_(truncated) {}

  // At most `size` bytes from `offset` of the text; empty at its end. Reading on where the last call ended takes
  // time for what is read only; any other place is reached from the start.
  std::string read(std::uint64_t offset, std::size_t size);

 private:
  bool append_next(std::string& out);  // the next line; false: there is none

  std::vector<std::shared_ptr<const TraceChunk>> chunks_;
  std::size_t count_;
  bool truncated_;
  std::size_t next_ = 0;        // the line that comes after pending_; count_ is that of kTruncatedLine
  std::string pending_;         // text that was made and not yet read
  std::uint64_t position_ = 0;  // where pending_ begins in the text
};

class TraceLog {
 public:
  explicit TraceLog(std::size_t limit) : limit_(limit) {}

  void start(Nanos now);  // forgets all, and logs from now on
  void stop() { on_ = false; }
  // `begin`: when the disk began with the request. Nothing unless the log is on.
  // A request of 4 GiB or more (a discard) becomes several.
  void add(Nanos begin, const Request& request, Nanos service);
  std::unique_ptr<TraceText> text() const;

 private:
  void append(const TraceRecord& record);

  const std::size_t limit_;
  bool on_ = false;
  bool truncated_ = false;
  Nanos start_{};
  std::size_t count_ = 0;
  std::vector<std::shared_ptr<TraceChunk>> chunks_;
};

}  // namespace lsmfs::simdisk
