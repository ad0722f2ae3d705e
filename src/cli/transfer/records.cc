#include "cli/transfer/records.h"

#include <sys/stat.h>

#include <algorithm>
#include <type_traits>

namespace lsmfs::cli {
namespace {

constexpr std::string_view kTokenStart = "lsmfs1-";
constexpr std::uint8_t kHasBase = 1, kWithoutHoles = 2;

// ---- parts of records

void put_time(std::string& out, const Time& time) {
  put_zigzag(out, time.seconds);
  put_varint(out, time.nanoseconds);
}

Time get_time(Reader& in) {
  Time time;
  time.seconds = in.zigzag();
  const std::uint64_t nanoseconds = in.varint();
  if (nanoseconds >= 1'000'000'000) in.fail();
  time.nanoseconds = static_cast<std::uint32_t>(nanoseconds);
  return time;
}

std::uint32_t get_u32(Reader& in) {
  const std::uint64_t value = in.varint();
  if (value > UINT32_MAX) in.fail();
  return static_cast<std::uint32_t>(value);
}

bool is_file_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && name != "." && name != ".." && name.find('\0') == name.npos && name.find('/') == name.npos;
}

std::string get_path(Reader& in) {
  const std::string_view path = in.string();
  if (!is_path_below(path)) in.fail();
  return std::string(path);
}

void put_snapshot(std::string& out, const NamedSnapshot& snapshot) {
  out.append(reinterpret_cast<const char*>(snapshot.id.volume.bytes.data()), snapshot.id.volume.bytes.size());
  put_varint(out, snapshot.id.number);
  put_time(out, snapshot.id.made);
  put_string(out, snapshot.name);
}

NamedSnapshot get_snapshot(Reader& in) {
  NamedSnapshot snapshot;
  const std::string_view volume = in.bytes(snapshot.id.volume.bytes.size());
  if (in.ok()) std::ranges::copy(volume, reinterpret_cast<char*>(snapshot.id.volume.bytes.data()));
  snapshot.id.number = in.varint();
  snapshot.id.made = get_time(in);
  snapshot.name = in.string();
  if (!is_file_name(snapshot.name)) in.fail();
  return snapshot;
}

void put_of(std::string& out, const StreamOf& of) {
  put_snapshot(out, of.snapshot);
  put_u8(out, static_cast<std::uint8_t>((of.base ? kHasBase : 0) | (of.without_holes ? kWithoutHoles : 0)));
  if (of.base) put_snapshot(out, *of.base);
}

StreamOf get_of(Reader& in) {
  StreamOf of{.snapshot = get_snapshot(in), .base = std::nullopt, .without_holes = false};
  const std::uint8_t what = in.u8();
  if (what > (kHasBase | kWithoutHoles)) in.fail();
  if (what & kHasBase) of.base = get_snapshot(in);
  of.without_holes = what & kWithoutHoles;
  return of;
}

// ---- one function each way for each record

void put(std::string& out, const BeginRecord& record) {
  put_of(out, record.of);
  put_varint(out, record.from.records);
  put_le64(out, record.from.chain);
}
void get(Reader& in, BeginRecord& record) {
  record.of = get_of(in);
  record.from.records = in.varint();
  record.from.chain = in.le64();
}

void put(std::string& out, const TakeRecord& record) {
  put_varint(out, record.number);
  put_string(out, record.path);
}
void get(Reader& in, TakeRecord& record) {
  record.number = in.varint();
  record.path = get_path(in);
}

void put(std::string& out, const RemoveRecord& record) { put_string(out, record.path); }
void get(Reader& in, RemoveRecord& record) { record.path = get_path(in); }

void put(std::string&, const RemovedRecord&) {}
void get(Reader&, RemovedRecord&) {}

void put(std::string& out, const PlaceRecord& record) {
  put_varint(out, record.number);
  put_string(out, record.path);
}
void get(Reader& in, PlaceRecord& record) {
  record.number = in.varint();
  record.path = get_path(in);
}

bool is_type(std::uint32_t type) {
  for (const std::uint32_t known : {S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK}) {
    if (type == known) return true;
  }
  return false;
}

void put(std::string& out, const NodeRecord& record) {
  put_string(out, record.path);
  put_u8(out, static_cast<std::uint8_t>(record.contents));
  put_varint(out, record.type);
  put_varint(out, record.uid);
  put_varint(out, record.gid);
  put_varint(out, record.device);
  put_string(out, record.target);
}
void get(Reader& in, NodeRecord& record) {
  record.path = in.string();
  const std::uint8_t contents = in.u8();
  if (contents > static_cast<std::uint8_t>(NodeRecord::Contents::kept)) in.fail();
  record.contents = static_cast<NodeRecord::Contents>(contents);
  record.type = get_u32(in);
  record.uid = get_u32(in);
  record.gid = get_u32(in);
  record.device = in.varint();
  record.target = in.string();
  const bool is_device = record.type == S_IFCHR || record.type == S_IFBLK;
  const bool right_target = record.type == S_IFLNK ? !record.target.empty() && record.target.find('\0') == std::string::npos : record.target.empty();
  const bool right_contents = record.contents != NodeRecord::Contents::replaced || record.type == S_IFREG;
  const bool right_path = record.path.empty() ? record.type == S_IFDIR && record.contents == NodeRecord::Contents::kept : is_path_below(record.path);
  if (!is_type(record.type) || (!is_device && record.device != 0) || !right_target || !right_contents || !right_path) in.fail();
}

bool is_in_file(std::uint64_t offset, std::uint64_t count) { return count > 0 && offset <= INT64_MAX && count <= INT64_MAX - offset; }

void put(std::string& out, const DataRecord& record) {
  put_le64(out, record.offset);
  out += record.bytes;
}
void get(Reader& in, DataRecord& record) {
  record.offset = in.le64();
  record.bytes = in.bytes(in.rest().size());
  if (!is_in_file(record.offset, record.bytes.size()) || record.bytes.size() > kStreamDataMost) in.fail();
}

void put(std::string& out, const HoleRecord& record) {
  put_varint(out, record.offset);
  put_varint(out, record.count);
}
void get(Reader& in, HoleRecord& record) {
  record.offset = in.varint();
  record.count = in.varint();
  if (!is_in_file(record.offset, record.count)) in.fail();
}

// As the kernel takes them: a name in a name space.
bool is_xattr_name(std::string_view name) { return !name.empty() && name.size() <= kXattrNameMax && name.find('\0') == name.npos; }

void put(std::string& out, const XattrRecord& record) {
  put_string(out, record.name);
  put_string(out, record.value);
}
void get(Reader& in, XattrRecord& record) {
  record.name = in.string();
  record.value = in.string();
  if (!is_xattr_name(record.name) || record.value.size() > kXattrSizeMax) in.fail();
}

void put(std::string& out, const AttributesRecord& record) {
  put_varint(out, record.mode);
  put_varint(out, record.size);
  put_time(out, record.accessed);
  put_time(out, record.modified);
  put_varint(out, record.flags);
  for (const std::string& name : record.xattrs) put_string(out, name);
}
void get(Reader& in, AttributesRecord& record) {
  record.mode = get_u32(in);
  record.size = in.varint();
  record.accessed = get_time(in);
  record.modified = get_time(in);
  record.flags = get_u32(in);
  if (record.mode > 07777 || record.size > INT64_MAX || (record.flags & ~(kStreamFlags & ~kLockingFlags)) != 0) in.fail();
  while (in.ok() && !in.at_end()) {
    const std::string_view name = in.string();
    if (!is_xattr_name(name)) in.fail();
    record.xattrs.emplace_back(name);
  }
}

void put(std::string& out, const LinkRecord& record) {
  put_string(out, record.path);
  put_string(out, record.existing);
}
void get(Reader& in, LinkRecord& record) {
  record.path = get_path(in);
  record.existing = get_path(in);
}

void put(std::string& out, const FlagsRecord& record) {
  put_string(out, record.path);
  put_varint(out, record.flags);
}
void get(Reader& in, FlagsRecord& record) {
  record.path = in.string();
  record.flags = get_u32(in);
  if ((!record.path.empty() && !is_path_below(record.path)) || (record.flags & ~kStreamFlags) != 0) in.fail();
}

void put(std::string& out, const EndRecord& record) {
  put_varint(out, record.records);
  put_varint(out, record.bytes);
}
void get(Reader& in, EndRecord& record) {
  record.records = in.varint();
  record.bytes = in.varint();
}

template <std::size_t kAt = 0>
std::optional<StreamRecord> decode_as(std::size_t index, std::string_view payload) {
  if constexpr (kAt == std::variant_size_v<StreamRecord>) {
    return std::nullopt;
  } else {
    if (index != kAt) return decode_as<kAt + 1>(index, payload);
    Reader in(payload);
    std::variant_alternative_t<kAt, StreamRecord> record;
    get(in, record);
    if (!in.ok() || !in.at_end()) return std::nullopt;
    return StreamRecord(std::move(record));
  }
}

}  // namespace

bool is_path_below(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    if (!is_file_name(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::uint8_t record_type(const StreamRecord& record) { return static_cast<std::uint8_t>(record.index() + 1); }

std::string encode_payload(const StreamRecord& record) {
  std::string out;
  std::visit([&](const auto& each) { put(out, each); }, record);
  return out;
}

std::optional<StreamRecord> decode_payload(std::uint8_t type, std::string_view payload) {
  if (type == 0) return std::nullopt;
  auto record = decode_as(type - 1u, payload);
  // Numbers can be written in more than one way, and the same record always is the same bytes.
  if (record && !std::holds_alternative<DataRecord>(*record) && encode_payload(*record) != payload) return std::nullopt;
  return record;
}

std::uint64_t chain_of(const StreamOf& of) {
  std::string bytes;
  put_of(bytes, of);
  return checksum(bytes);
}

std::string token_of(const BeginRecord& begin) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string bytes = encode_payload(begin);
  put_le64(bytes, checksum(bytes));
  std::string token(kTokenStart);
  for (const char c : bytes) token.append({kDigits[static_cast<std::uint8_t>(c) >> 4], kDigits[c & 15]});
  return token;
}

std::optional<BeginRecord> parse_token(std::string_view text) {
  if (!text.starts_with(kTokenStart)) return std::nullopt;
  text.remove_prefix(kTokenStart.size());
  std::string bytes;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (; text.size() >= 2; text.remove_prefix(2)) {
    const int high = digit(text[0]), low = digit(text[1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(high << 4 | low));
  }
  if (!text.empty() || bytes.size() < sizeof(std::uint64_t)) return std::nullopt;
  const std::string_view payload = std::string_view(bytes).substr(0, bytes.size() - sizeof(std::uint64_t));
  if (Reader(std::string_view(bytes).substr(payload.size())).le64() != checksum(payload)) return std::nullopt;
  auto record = decode_payload(record_type(BeginRecord()), payload);
  if (!record) return std::nullopt;
  return std::get<BeginRecord>(*std::move(record));
}

}  // namespace lsmfs::cli
