#include "cli/transfer/frames.h"

#include <algorithm>

namespace lsmfs::cli {
namespace {

constexpr std::string_view kStreamMagic("\x89lsmfs\r\n", 8);  // a link that changes line ends or takes 7 bits alone shows at once

struct FrameHeader {
  std::uint32_t size;
  std::uint8_t type;
};

std::string header_of(std::size_t size, std::uint8_t type) {
  std::string out;
  put_le32(out, static_cast<std::uint32_t>(size));
  put_u8(out, type);
  out.append(3, '\0');
  return out;
}

std::uint64_t checksum_of(std::string_view header, std::string_view payload, std::uint64_t seed) { return checksum(payload, checksum(header, seed)); }

}  // namespace

Result<void> StreamWriter::start() {
  std::string bytes(kStreamMagic);
  put_le32(bytes, kStreamVersion);
  put_le32(bytes, 0);
  const std::string payload = encode_payload(begin_), header = header_of(payload.size(), record_type(begin_));
  bytes += header;
  put_le64(bytes, checksum_of(header, payload, kStreamVersion));
  return sink_(bytes + payload);
}

Result<void> StreamWriter::put(const StreamRecord& record) {
  const std::string payload = encode_payload(record);
  std::string bytes = header_of(payload.size(), record_type(record));
  chain_ = checksum_of(bytes, payload, chain_);
  put_le64(bytes, chain_);
  ++records_;
  LSMFS_TRY(sink_(bytes));
  return sink_(payload);
}

Error StreamReader::failed(StreamTrouble trouble) {
  trouble_ = trouble;
  return make_error(EPROTO, "");
}

Result<std::string> StreamReader::take(std::size_t count, StreamTrouble if_none) {
  std::string bytes;
  while (bytes.size() < count) {
    auto more = source_(count - bytes.size());
    if (!more) {
      trouble_ = StreamTrouble::unread;
      return std::move(more.error());
    }
    if (more->empty()) return failed(bytes.empty() ? if_none : StreamTrouble::cut);
    bytes += *more;
  }
  return bytes;
}

Result<StreamRecord> StreamReader::frame(std::uint64_t seed) {
  LSMFS_ASSIGN(const std::string header, take(kFrameHeaderBytes, StreamTrouble::cut));
  Reader in(header);
  const FrameHeader what{.size = in.le32(), .type = in.u8()};
  (void)in.bytes(3);
  const std::uint64_t sum = in.le64();
  if (what.size > kStreamPayloadMost) return failed(StreamTrouble::damaged);
  LSMFS_ASSIGN(const std::string payload, take(what.size, StreamTrouble::cut));
  if (checksum_of(std::string_view(header).substr(0, 8), payload, seed) != sum) return failed(StreamTrouble::damaged);
  auto record = decode_payload(what.type, payload);
  if (!record) return failed(StreamTrouble::damaged);
  chain_ = sum;
  return *std::move(record);
}

Result<BeginRecord> StreamReader::start() {
  // What is shorter than a beginning can be told for what it is as well.
  std::string start;
  while (start.size() < kStreamStartBytes) {
    auto more = take(1, start.empty() ? StreamTrouble::empty : StreamTrouble::cut);
    if (!more) return std::move(more.error());
    start += *more;
    const std::size_t known = std::min(start.size(), kStreamMagic.size());
    if (start.substr(0, known) != kStreamMagic.substr(0, known)) return failed(StreamTrouble::foreign);
  }
  Reader in(std::string_view(start).substr(kStreamMagic.size()));
  if (const std::uint32_t version = in.le32(); version != kStreamVersion) return failed(version > kStreamVersion ? StreamTrouble::newer : StreamTrouble::damaged);
  if (in.le32() != 0) return failed(StreamTrouble::damaged);
  LSMFS_ASSIGN(StreamRecord first, frame(kStreamVersion));
  auto* const begin = std::get_if<BeginRecord>(&first);
  if (!begin || (begin->from.records == 0 && begin->from.chain != chain_of(begin->of))) return failed(StreamTrouble::damaged);
  records_ = begin->from.records;
  chain_ = begin->from.chain;
  return std::move(*begin);
}

Result<std::optional<StreamRecord>> StreamReader::next() {
  if (ended_) return std::optional<StreamRecord>();
  LSMFS_ASSIGN(StreamRecord record, frame(chain_));
  if (std::holds_alternative<BeginRecord>(record)) return failed(StreamTrouble::damaged);
  const auto* const end = std::get_if<EndRecord>(&record);
  if (end && end->records != records_) return failed(StreamTrouble::damaged);
  ended_ = end != nullptr;
  ++records_;
  return std::optional(std::move(record));
}

}  // namespace lsmfs::cli
