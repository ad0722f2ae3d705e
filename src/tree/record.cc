#include "tree/record.h"

#include <algorithm>
#include <limits>

#include "tree/keys.h"

namespace lsmfs {
namespace {

enum RowKind : std::uint8_t { kRecordRow = 1, kLinkRow = 2, kStateRow = 3, kNodeRow = 4 };
enum RecordFlag : std::uint8_t { kHasHome = 1, kHasXattrs = 2, kHasInodeFlags = 4, kHasBlobs = 8, kHasNumber = 16, kIsBase = 32, kHasBase = 64, kIsSnapshot = 128 };
static_assert(kInodeFlags == (FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL | FS_NOATIME_FL));

// Relative to mtime, since the times of one inode are mostly close to each other.
void put_time(std::string& out, const Time& time, std::int64_t base) {
  // Wraps around for absurd distances, as the reader does.
  put_zigzag(out, static_cast<std::int64_t>(static_cast<std::uint64_t>(time.seconds) - static_cast<std::uint64_t>(base)));
  put_varint(out, time.nanoseconds);
}

Time get_time(Reader& in, std::int64_t base) {
  Time time;
  time.seconds = static_cast<std::int64_t>(static_cast<std::uint64_t>(in.zigzag()) + static_cast<std::uint64_t>(base));
  const std::uint64_t nanoseconds = in.varint();
  if (nanoseconds >= 1'000'000'000) in.fail();
  time.nanoseconds = static_cast<std::uint32_t>(nanoseconds);
  return time;
}

std::uint32_t get_u32(Reader& in) {
  const std::uint64_t v = in.varint();
  if (v > std::numeric_limits<std::uint32_t>::max()) in.fail();
  return static_cast<std::uint32_t>(v);
}

bool known_type(std::uint32_t mode) {
  switch (mode & S_IFMT) {
    case S_IFREG: case S_IFDIR: case S_IFLNK: case S_IFCHR: case S_IFBLK: case S_IFIFO: case S_IFSOCK:
      return (mode & ~(S_IFMT | 07777u)) == 0;
    default:
      return false;
  }
}

// The lowest bit of the size says where the value is.
void put_xattr(std::string& out, const Xattr& xattr) {
  put_string(out, xattr.name);
  const std::uint64_t size = xattr.row_size > 0 ? xattr.row_size : xattr.value.size();
  put_varint(out, size << 1 | (xattr.row_size > 0));
  out += xattr.value;
}

Xattr get_xattr(Reader& in) {
  Xattr xattr;
  xattr.name = in.string();
  const std::uint64_t code = in.varint(), size = code >> 1;
  const bool in_row = code & 1;
  if (xattr.name.empty() || xattr.name.size() > kXattrNameMax || xattr.name.find('\0') != std::string::npos) in.fail();
  if (size > (in_row ? kXattrSizeMax : kXattrInlineMax) || (in_row && size == 0)) in.fail();
  if (!in.ok()) return xattr;
  if (in_row) {
    xattr.row_size = static_cast<std::uint32_t>(size);
  } else {
    xattr.value = in.bytes(size);
  }
  return xattr;
}

void get_xattrs(Reader& in, std::vector<Xattr>& out) {
  const std::uint64_t count = in.varint();
  if (count == 0 || count > kXattrListMax / 2) in.fail();
  for (std::uint64_t i = 0; i < count && in.ok(); ++i) {
    out.push_back(get_xattr(in));
    if (i > 0 && out[i - 1].name >= out[i].name) in.fail();
  }
}

Ino get_ino(Reader& in) {
  const Ino ino{in.varint()};
  if (ino.v == 0 || ino >= kInoMax) in.fail();
  return ino;
}

// Whether it could be that of a base of the record. A file cannot have that of the root.
bool is_home_of_base(const Record& r, const std::string& home) { return keys::number_of(home) && (r.is_directory() || !home.empty()); }

// Into a record as it is made. False: damaged.
bool read_record(Reader& in, Record& r) {
  const std::uint8_t flags = in.u8();
  r.ino = get_ino(in);
  r.mode = get_u32(in);
  r.nlink = get_u32(in);
  r.uid = get_u32(in);
  r.gid = get_u32(in);
  r.size = in.varint();
  r.mtime = get_time(in, 0);
  r.ctime = get_time(in, r.mtime.seconds);
  r.atime = get_time(in, r.mtime.seconds);
  r.btime = get_time(in, r.mtime.seconds);
  if (S_ISREG(r.mode)) r.blocks = in.varint();
  if (flags & kHasBlobs) r.blob_blocks = in.varint();
  if (S_ISCHR(r.mode) || S_ISBLK(r.mode)) r.rdev = in.varint();
  if (S_ISLNK(r.mode)) r.symlink = in.string();
  if (flags & kHasHome) r.home = in.string();
  if (flags & kHasNumber) r.home_number = get_ino(in);
  if (flags & kHasBase) r.base = in.string();
  if ((flags & kHasBase) && r.is_directory()) r.shift = in.varint();
  if (flags & kIsSnapshot) r.snapshot_of = in.string();
  r.is_base = flags & kIsBase;
  if (flags & kHasXattrs) get_xattrs(in, r.xattrs);
  if (flags & kHasInodeFlags) r.flags = get_u32(in);
  if (!in.ok() || !in.at_end() || !known_type(r.mode)) return false;
  if (S_ISREG(r.mode) && (r.size > kFileSizeMax || r.blocks > block_count(r.size) || r.blob_blocks > block_count(r.size) - r.blocks)) return false;
  if (((flags & kHasBlobs) != 0) != (r.blob_blocks != 0) || (r.blob_blocks > 0 && !S_ISREG(r.mode))) return false;
  if (S_ISLNK(r.mode) && (r.symlink.empty() || r.symlink.size() > kSymlinkMax || r.size != r.symlink.size())) return false;
  if (r.xattr_names_size() > kXattrListMax || r.xattr_inline_size() > kXattrInlineSum) return false;
  if (((flags & kHasInodeFlags) != 0) != (r.flags != 0) || (r.flags & ~kInodeFlags)) return false;
  if (((flags & kHasHome) != 0) == r.home.empty()) return false;
  if ((flags & kHasNumber) && (r.home_number == r.ino || r.home_number <= kRootIno)) return false;
  if (r.number() >= kCountedMax) return false;
  if (r.is_base && !S_ISREG(r.mode)) return false;
  if (r.snapshot_of && !r.is_directory()) return false;
  if ((flags & kHasBase) && (r.is_base || !r.shows_something() || !is_home_of_base(r, *r.base) || r.shift > shifts::kRange)) return false;
  if (r.is_directory() && r.has_base() && r.base->size() > keys::kPathHomeMax) return false;
  if (r.home.size() > (r.is_directory() ? keys::kPathHomeMax : keys::kHomeMax)) return false;
  return true;
}

}  // namespace

std::string Record::home_in(std::string_view dir_home, std::string_view name) const {
  return home.empty() ? keys::child_home(dir_home, name, number()) : home;
}

bool is_of_root(const Record& record) {
  const bool is_first = record.number() == kRootIno;
  return record.ino == kRootIno && record.is_directory() && record.home == keys::root_home(record.number()) && !(is_first && record.has_base());
}

bool is_of_snapshots(const Record& record) {
  return record.ino == kSnapshotsIno && record.is_directory() && !record.has_base() && record.home == keys::far_home(kSnapshotsIno);
}

Record record_shown(const std::string& base, std::uint64_t shift, std::string_view name, Record row, std::string& row_home) {
  std::string home = row.home_in(base, name);
  row.ino = shifts::shifted(row.ino, shift);
  if (row.is_directory() && row.shows_something()) row.shift = row.has_base() ? shifts::sum(shift, row.shift) : shift;
  if (row.shows_something() && !row.has_base()) row.base = home;
  row.home.clear();
  row.home_number = {};
  row.is_base = false;
  if (row.has_xattr_rows()) row_home = std::move(home);
  return row;
}

Attr Record::attr() const {
  Attr a;
  a.ino = ino;
  a.mode = mode;
  a.nlink = nlink;
  a.uid = uid;
  a.gid = gid;
  a.rdev = rdev;
  a.size = is_directory() ? kBlockSize : size;
  a.blocks = all_blocks() * (kBlockSize / 512);
  a.atime = atime;
  a.mtime = mtime;
  a.ctime = ctime;
  a.btime = btime;
  a.flags = flags;
  return a;
}

namespace {

auto by_name = [](const Xattr& xattr, std::string_view name) { return xattr.name < name; };

}  // namespace

const Xattr* Record::find_xattr(std::string_view name) const {
  const auto at = std::lower_bound(xattrs.begin(), xattrs.end(), name, by_name);
  return at != xattrs.end() && at->name == name ? &*at : nullptr;
}

void Record::set_xattr(Xattr xattr) {
  const auto at = std::lower_bound(xattrs.begin(), xattrs.end(), xattr.name, by_name);
  if (at != xattrs.end() && at->name == xattr.name) {
    *at = std::move(xattr);
  } else {
    xattrs.insert(at, std::move(xattr));
  }
}

void Record::remove_xattr(std::string_view name) {
  std::erase_if(xattrs, [&](const Xattr& xattr) { return xattr.name == name; });
}

std::size_t Record::xattr_names_size() const {
  std::size_t sum = 0;
  for (const Xattr& xattr : xattrs) sum += xattr.name.size() + 1;
  return sum;
}

std::size_t Record::xattr_inline_size() const {
  std::size_t sum = 0;
  for (const Xattr& xattr : xattrs) sum += xattr.value.size();
  return sum;
}

bool Record::has_xattr_rows() const {
  return std::any_of(xattrs.begin(), xattrs.end(), [](const Xattr& xattr) { return xattr.row_size > 0; });
}

std::string encode(const Record& r) {
  std::string out;
  out.reserve(64 + r.symlink.size() + r.home.size());
  put_u8(out, kRecordRow);
  put_u8(out, static_cast<std::uint8_t>((r.home.empty() ? 0 : kHasHome) | (r.xattrs.empty() ? 0 : kHasXattrs) |
                                        (r.flags == 0 ? 0 : kHasInodeFlags) | (r.blob_blocks == 0 ? 0 : kHasBlobs) |
                                        (r.home_number.v == 0 ? 0 : kHasNumber) | (r.is_base ? kIsBase : 0) |
                                        (r.has_base() ? kHasBase : 0) | (r.snapshot_of ? kIsSnapshot : 0)));
  put_varint(out, r.ino.v);
  put_varint(out, r.mode);
  put_varint(out, r.nlink);
  put_varint(out, r.uid);
  put_varint(out, r.gid);
  put_varint(out, r.size);
  put_time(out, r.mtime, 0);
  put_time(out, r.ctime, r.mtime.seconds);
  put_time(out, r.atime, r.mtime.seconds);
  put_time(out, r.btime, r.mtime.seconds);
  if (S_ISREG(r.mode)) put_varint(out, r.blocks);
  if (r.blob_blocks > 0) put_varint(out, r.blob_blocks);
  if (S_ISCHR(r.mode) || S_ISBLK(r.mode)) put_varint(out, r.rdev);
  if (S_ISLNK(r.mode)) put_string(out, r.symlink);
  if (!r.home.empty()) put_string(out, r.home);
  if (r.home_number.v != 0) put_varint(out, r.home_number.v);
  if (r.has_base()) put_string(out, *r.base);
  if (r.has_base() && r.is_directory()) put_varint(out, r.shift);
  if (r.snapshot_of) put_string(out, *r.snapshot_of);
  if (!r.xattrs.empty()) {
    put_varint(out, r.xattrs.size());
    for (const Xattr& xattr : r.xattrs) put_xattr(out, xattr);
  }
  if (r.flags != 0) put_varint(out, r.flags);
  return out;
}

std::string encode(const Link& link) {
  std::string out;
  put_u8(out, kLinkRow);
  put_varint(out, link.ino.v);
  put_varint(out, link.type);
  return out;
}

std::string encode(const Node& node) {
  std::string out;
  put_u8(out, kNodeRow);
  put_string(out, node.home);
  put_u8(out, node.directory ? 1 : 0);
  put_varint(out, node.size);
  put_varint(out, node.blocks);
  put_varint(out, node.blob_blocks);
  return out;
}

std::string encode(const State& state) {
  std::string out;
  put_u8(out, kStateRow);
  put_varint(out, state.next_ino.v);
  put_varint(out, state.counts.regular);
  put_varint(out, state.counts.directories);
  put_varint(out, state.counts.symlinks);
  put_varint(out, state.counts.others);
  put_varint(out, state.counts.displaced);
  put_varint(out, state.counts.fixed);
  put_varint(out, state.data_rows);
  put_varint(out, state.blob_waste);
  put_time(out, state.as_of, 0);
  put_u8(out, state.in_use ? 1 : 0);
  return out;
}

std::optional<EntryRow> decode_entry(std::string_view value) {
  Reader in(value);
  switch (in.u8()) {
    case kRecordRow: {
      std::optional<EntryRow> row(std::in_place, std::in_place_type<Record>);
      if (!read_record(in, std::get<Record>(*row))) row.reset();
      return row;
    }
    case kLinkRow: {
      Link link;
      link.ino = get_ino(in);
      link.type = get_u32(in);
      if (!in.ok() || !in.at_end() || link.ino == kRootIno || !known_type(link.type) || (link.type & 07777)) return std::nullopt;
      return link;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Record> decode_record(std::string_view value) {
  auto row = decode_entry(value);
  if (!row || !std::holds_alternative<Record>(*row)) return std::nullopt;
  return std::get<Record>(std::move(*row));
}

std::optional<Node> decode_node(std::string_view value) {
  Reader in(value);
  if (in.u8() != kNodeRow) return std::nullopt;
  Node node;
  node.home = in.string();
  const std::uint8_t directory = in.u8();
  node.directory = directory == 1;
  node.size = in.varint();
  node.blocks = in.varint();
  node.blob_blocks = in.varint();
  if (!in.ok() || !in.at_end() || !keys::number_of(node.home) || (node.home.empty() && !node.directory) || node.size > kFileSizeMax) return std::nullopt;
  if (directory > 1 || (node.directory && (node.size > 0 || node.blocks > 0 || node.blob_blocks > 0))) return std::nullopt;
  if (node.directory && node.home.size() > keys::kPathHomeMax) return std::nullopt;
  if (node.blocks > block_count(node.size) || node.blob_blocks > block_count(node.size) - node.blocks) return std::nullopt;
  return node;
}

std::optional<State> decode_state(std::string_view value) {
  Reader in(value);
  if (in.u8() != kStateRow) return std::nullopt;
  State s;
  s.next_ino = Ino{in.varint()};
  s.counts.regular = in.varint();
  s.counts.directories = in.varint();
  s.counts.symlinks = in.varint();
  s.counts.others = in.varint();
  s.counts.displaced = in.varint();
  s.counts.fixed = in.varint();
  s.data_rows = in.varint();
  s.blob_waste = in.varint();
  s.as_of = get_time(in, 0);
  const std::uint8_t in_use = in.u8();
  s.in_use = in_use == 1;
  if (in_use > 1) return std::nullopt;
  if (!in.ok() || !in.at_end() || s.next_ino.v < 2 || s.next_ino > kSnapshotsIno) return std::nullopt;
  return s;
}

}  // namespace lsmfs
