// The form of a stream of records: each a length of four bytes, a type, and what the type says.
#include "tree/import_records.h"

namespace lsmfs {
namespace {

constexpr std::uint8_t kHasAtime = 1, kHasMtime = 2, kIsLink = 4;

void put_time(std::string& out, const Time& time) {
  put_zigzag(out, time.seconds);
  put_varint(out, time.nanoseconds);
}

Time read_time(Reader& in) {
  const std::int64_t seconds = in.zigzag();
  const std::uint64_t nanoseconds = in.varint();
  if (nanoseconds >= 1'000'000'000) in.fail();
  return {seconds, static_cast<std::uint32_t>(nanoseconds)};
}

std::uint32_t read_32(Reader& in) {
  const std::uint64_t value = in.varint();
  if (value > UINT32_MAX) in.fail();
  return static_cast<std::uint32_t>(value);
}

std::string body_of(const ImportedInode& inode) {
  std::string body;
  put_u8(body, kInodeRecord);
  put_u8(body, static_cast<std::uint8_t>((inode.atime ? kHasAtime : 0) | (inode.mtime ? kHasMtime : 0) | (inode.is_link ? kIsLink : 0)));
  put_string(body, inode.path);
  for (const std::uint64_t number : {std::uint64_t{inode.mode}, std::uint64_t{inode.uid}, std::uint64_t{inode.gid}, inode.rdev, inode.size}) {
    put_varint(body, number);
  }
  if (inode.atime) put_time(body, *inode.atime);
  if (inode.mtime) put_time(body, *inode.mtime);
  put_string(body, inode.target);
  for (const auto& [name, value] : inode.xattrs) {
    put_string(body, name);
    put_string(body, value);
  }
  return body;
}

}  // namespace

void put_record(std::string& stream, const ImportedInode& inode) {
  const std::string body = body_of(inode);
  put_le32(stream, static_cast<std::uint32_t>(body.size()));
  stream += body;
}

std::size_t record_size(const ImportedInode& inode) { return kRecordHeader + body_of(inode).size(); }

void put_record(std::string& stream, std::uint64_t offset, std::string_view data) {
  put_le32(stream, static_cast<std::uint32_t>(kDataHeader + data.size()));
  put_u8(stream, kDataRecord);
  put_le64(stream, offset);
  stream += data;
}

std::optional<ImportedInode> decode_inode(std::string_view body) {
  Reader in(body);
  ImportedInode inode;
  if (in.u8() != kInodeRecord) return std::nullopt;
  const std::uint8_t has = in.u8();
  inode.path = in.string();
  inode.mode = read_32(in);
  inode.uid = read_32(in);
  inode.gid = read_32(in);
  inode.rdev = in.varint();
  inode.size = in.varint();
  if (has & kHasAtime) inode.atime = read_time(in);
  if (has & kHasMtime) inode.mtime = read_time(in);
  inode.is_link = has & kIsLink;
  inode.target = in.string();
  while (in.ok() && !in.at_end()) {
    std::string name(in.string());
    inode.xattrs.emplace_back(std::move(name), in.string());
  }
  if (!in.ok() || has > (kHasAtime | kHasMtime | kIsLink)) return std::nullopt;
  return inode;
}

std::optional<ImportedData> decode_data(std::string_view body) {
  Reader in(body);
  if (in.u8() != kDataRecord) return std::nullopt;
  const std::uint64_t offset = in.le64();
  if (!in.ok() || in.rest().empty() || in.rest().size() > kImportDataMax) return std::nullopt;
  return ImportedData{offset, in.rest()};
}

}  // namespace lsmfs
