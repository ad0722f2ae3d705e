// A stream as bytes: a beginning that tells what it is, and records in frames, each with a checksum that is of all before it as well.
//
// So records that are damaged, missing, doubled or of another stream are found before anything is made of them. docs/streams.md has the format.
// What it is not: it does nothing about what records say.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/transfer/records.h"

namespace lsmfs::cli {

inline constexpr std::uint32_t kStreamVersion = 1;
inline constexpr std::size_t kStreamStartBytes = 16, kFrameHeaderBytes = 16;

// Writes a stream, or the part of it from where one goes on.
class StreamWriter {
 public:
  using Sink = std::function<Result<void>(std::string_view bytes)>;
  // The sink must outlive it.
  StreamWriter(const Sink& sink, const BeginRecord& begin) : sink_(sink), begin_(begin), chain_(begin.from.chain) {}

  Result<void> start();
  // Whether the next record is of the part before, which is only counted.
  bool is_passed_over() const { return records_ < begin_.from.records; }
  // Errors: those of the sink.
  Result<void> put(const StreamRecord& record);
  // Counts one of the part before. Must hold: is_passed_over().
  void pass_over() { ++records_; }
  std::uint64_t records() const { return records_; }

 private:
  const Sink& sink_;
  const BeginRecord begin_;
  std::uint64_t chain_;
  std::uint64_t records_ = 0;
};

// Why a stream cannot be read on.
enum class StreamTrouble : std::uint8_t { empty, foreign, newer, cut, damaged, unread };

// Reads one.
class StreamReader {
 public:
  // Gives at least one byte, and at most so many; "": that was all. Must outlive the reader.
  using Source = std::function<Result<std::string_view>(std::size_t most)>;
  explicit StreamReader(const Source& source) : source_(source) {}

  // Must come first. Errors: code EPROTO, and trouble() says more; those of the source, which is StreamTrouble::unread.
  Result<BeginRecord> start();
  // nullopt: it has ended, with all that it should have. Errors: likewise.
  Result<std::optional<StreamRecord>> next();
  // Behind the record that was given last.
  StreamPoint point() const { return {records_, chain_}; }
  StreamTrouble trouble() const { return trouble_; }

 private:
  Result<std::string> take(std::size_t count, StreamTrouble if_none);
  Result<StreamRecord> frame(std::uint64_t seed);
  Error failed(StreamTrouble trouble);

  const Source& source_;
  std::string read_;
  std::uint64_t chain_ = 0, records_ = 0;
  StreamTrouble trouble_ = StreamTrouble::unread;
  bool ended_ = false;
};

}  // namespace lsmfs::cli
