// The values of the rows of family names: inode records, link rows and the tree's state.
// docs/format.md, "Rows", gives every byte. Decoding takes untrusted bytes: nullopt when damaged.
#pragma once

#include <linux/fs.h>
#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lsmfs/tree.h"

namespace lsmfs {

// An extended attribute.
struct Xattr {
  std::string name;             // 1 to kXattrNameMax bytes without 0
  std::string value;            // if it is in the record
  std::uint32_t row_size = 0;   // else how many bytes its row has
  friend bool operator==(const Xattr&, const Xattr&) = default;
};
// A value over the first, or one that would make the sum exceed the second, has a row of its own: the
// record is written with every change of the inode.
inline constexpr std::size_t kXattrInlineMax = 256;   // bytes of one value
inline constexpr std::size_t kXattrInlineSum = 1024;  // bytes of all values in the record

// The blocks that so many bytes of file data take.
inline std::uint64_t block_count(std::uint64_t size) { return div_up(size, kBlockSize); }

// All that is known of an inode but its data. As stored; sizes in bytes, blocks in rows of kBlockSize.
struct Record {
  Ino ino;
  std::uint32_t mode = 0;
  std::uint32_t nlink = 0;  // directories: 2 + subdirectories
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t size = 0;   // files: bytes; directories: entries; symbolic links: bytes of the target
  std::uint64_t blocks = 0; // files: rows in family blocks
  std::uint64_t blob_blocks = 0;  // files: blocks that lie in parts instead: blobs, or what it shares (file_blobs.h)
  std::uint64_t rdev = 0;
  Time atime, mtime, ctime, btime;
  std::string symlink;
  std::string home;         // explicit home; empty: derived from the name
  Ino home_number{};        // the number in it, if that is not the inode's
  // The home of another one that has what would lie under this one's: all entries of a directory, all blocks of a file (clones.cc).
  std::optional<std::string> base;
  std::uint64_t shift = 0;  // directories with a base: by how much inode numbers below it differ (shifted())
  std::optional<std::string> snapshot_of;  // a snapshot as a whole: the path of its source (SnapshotInfo)
  bool is_base = false;     // files: what lies under its home may be shared by others, and does not change (shares.cc)
  std::vector<Xattr> xattrs;  // sorted by name
  std::uint32_t flags = 0;    // of kInodeFlags

  Ino number() const { return home_number.v == 0 ? ino : home_number; }  // in its home
  bool has_base() const { return base.has_value(); }
  bool shows_something() const { return is_directory() ? size > 0 : is_regular() && all_blocks() > 0; }  // what a base could have
  bool is_directory() const { return S_ISDIR(mode); }
  bool is_regular() const { return S_ISREG(mode); }
  bool is_immutable() const { return flags & FS_IMMUTABLE_FL; }
  bool is_append_only() const { return flags & FS_APPEND_FL; }
  std::uint64_t all_blocks() const { return blocks + blob_blocks; }
  bool is_sparse() const { return all_blocks() != block_count(size); }  // files: some blocks do not exist
  // Where what is below it lies, unless it has a base: as an entry of the directory whose home that is.
  std::string home_in(std::string_view dir_home, std::string_view name) const;
  Attr attr() const;
  const Xattr* find_xattr(std::string_view name) const;  // until the next change; nullptr: none
  void set_xattr(Xattr xattr);
  void remove_xattr(std::string_view name);
  std::size_t xattr_names_size() const;   // bytes of the names, each with a 0
  std::size_t xattr_inline_size() const;  // bytes of the values in the record
  bool has_xattr_rows() const;
  // Whether rows other than its own lie under its home: the reason to keep an explicit home, and an orphan's row.
  bool has_rows_below() const { return ((is_directory() ? size : blocks) > 0 && !has_base()) || is_base || has_xattr_rows(); }
  friend bool operator==(const Record&, const Record&) = default;
};

// A name of an inode that has (or had) several: its record is in the row keys::linked(ino).
struct Link {
  Ino ino;
  std::uint32_t type = 0;  // type bits of the mode, for listings
  friend bool operator==(const Link&, const Link&) = default;
};

// An inode number seen through a base. One shift gives no two numbers the same place; that of a shift of a shift is their sum()'s.
namespace shifts {
inline constexpr std::uint64_t kRange = kInoMax.v - kCountedMax.v;
inline constexpr std::uint64_t kLeast = kCountedMax.v, kMost = kRange - 2 * kCountedMax.v;  // of those that are drawn
inline std::uint64_t place(Ino ino) { return ino < kCountedMax ? ino.v : ino.v - kCountedMax.v; }
inline Ino shifted(Ino ino, std::uint64_t shift) { return shift == 0 ? ino : Ino{kCountedMax.v + (place(ino) + shift) % kRange}; }
// From how one is seen to how it is seen elsewhere.
inline std::uint64_t between(Ino from, Ino to) { return (place(to) + kRange - place(from)) % kRange; }
// At most kRange, and 0 only if both are.
inline std::uint64_t sum(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t all = (a + b) % kRange;
  return all == 0 && a + b > 0 ? kRange : all;
}
}  // namespace shifts

// What a file or directory has left to those who share it: all that lies under its home, which nobody changes.
struct Node {
  std::string home;
  std::uint64_t size = 0;         // bytes: nothing lies past it
  std::uint64_t blocks = 0;       // rows in family blocks
  std::uint64_t blob_blocks = 0;  // as of a record
  bool directory = false;         // its entries lie there; the three are 0
  friend bool operator==(const Node&, const Node&) = default;
};

struct State {
  Ino next_ino{2};  // at most kSnapshotsIno
  TreeCounts counts;
  std::uint64_t data_rows = 0;  // in family blocks: the blocks of all files' records, also of those without a name
  std::uint64_t blob_waste = 0; // blocks in blobs that are wanted no more
  Time as_of;                   // no change is missing that had returned by then
  bool in_use = false;          // more may have come after it
};

using EntryRow = std::variant<Record, Link>;

// Whether it can be the record of the root, or of the directory of snapshots: these have numbers and homes of their own.
bool is_of_root(const Record& record);
bool is_of_snapshots(const Record& record);

// The record of an entry whose row is `row`, in a directory that shows `base` by `shift`: what it has below lies at the base. `row_home`:
// where its attributes have rows, if they do.
Record record_shown(const std::string& base, std::uint64_t shift, std::string_view name, Record row, std::string& row_home);

std::string encode(const Record& record);
std::string encode(const Link& link);
std::string encode(const Node& node);
std::string encode(const State& state);
std::optional<EntryRow> decode_entry(std::string_view value);
std::optional<Record> decode_record(std::string_view value);
std::optional<Node> decode_node(std::string_view value);
std::optional<State> decode_state(std::string_view value);

}  // namespace lsmfs
