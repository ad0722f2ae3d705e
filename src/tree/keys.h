// The key grammar: where the rows of an inode lie in the two families. docs/format.md, "Keys".
//
//   home(root)  = ""
//   home(child) = home(parent) name 0x00 length-byte big-endian-number
//
// The number is the inode's own, or one that a file got when others went on to read what lay under its home before.
//
// A name holds neither 0x00 nor '/', so a home needs no escaping, plain byte order is the order of
// path components, and '/' at the start of a key is free for rows that belong to no directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/tree.h"

namespace lsmfs::keys {

// Where the children of a directory or the blocks of a file lie. Unique for ever: it ends in an ino.
std::string child_home(std::string_view parent_home, std::string_view name, Ino ino);
// Only so far down, which is further than paths of PATH_MAX bytes reach, do directories lie under their path: one
// that is too deep begins anew at a far home, explicit in its record. So keys stay short however deep the tree is.
inline constexpr std::size_t kPathHomeMax = 16 * KiB;
inline constexpr std::size_t kHomeMax = kPathHomeMax + kNameMax + 7;  // of what is no directory
bool too_deep(std::string_view parent_home, std::string_view name, Ino ino);
std::string far_home(Ino ino);
// The root's: empty with its own number. It gets another one when it has left what it had to a snapshot.
std::string root_home(Ino number);

// ---- family names
inline constexpr std::string_view kRoot{"\0", 1};  // the root's own record: an entry without a name
inline constexpr std::string_view kState = "/s";   // the tree's counters
inline constexpr std::string_view kSnapshots = "/v";  // the record of the directory of snapshots
inline constexpr std::string_view kNumberedBegin = "/0";  // rows by numbers, here and below, come after it; homes that begin with '/' before
inline constexpr std::string_view kLinkedPrefix = "/i";
inline constexpr std::string_view kOrphanPrefix = "/o";
inline constexpr std::string_view kBlobPrefix = "/b";   // parts: blobs, and what is shared
inline constexpr std::string_view kBlobPatchPrefix = "/p";
inline constexpr std::string_view kNodePrefix = "/n";
inline constexpr std::string_view kUserPrefix = "/r";
inline constexpr std::string_view kChanges = "/c";  // the head of the log of changes, and the beginning of its rows
inline constexpr std::string_view kWholeUser{"\x01", 1};  // such a row's value, if it has the base as a whole; else it has parts, and there is none

std::string entry(std::string_view dir_home, std::string_view name);
std::string xattr(std::string_view home, std::string_view name);  // the value of a large extended attribute
std::string linked(Ino ino);  // the record of an inode with several names
std::string orphan(Ino ino);  // the record of an inode without a name
// A part of a file (a blob, or what it shares), whose first block is block `first` of it; where the keys of all of a file's parts begin;
// and where those of the next. `number`: that in the file's home.
std::string blob(Ino number, BlockIndex first);
std::string blobs_begin(Ino number);
std::string blobs_end(Ino number);
// What was written over a part of a block that lies in a blob (block_patch.h); the number likewise.
std::string blob_patch(Ino number, BlockIndex index);
// By the numbers in homes: a base that no file has any more; that one home uses a base; and the range of all users of one.
std::string node(Ino number);
std::string user(Ino base, Ino user);
std::string users_begin(Ino base);
std::string users_end(Ino base);

// A row of the log of changes. The newest one comes first, right after the head.
std::string change(std::uint64_t sequence);
// The first key after all of them.
std::string changes_end();

// The range [first, last) of a directory's entries. Rows that start home 0x00 0x00 are extended
// attributes and come before it.
std::string entries_begin(std::string_view dir_home);
std::string entries_end(std::string_view dir_home);
// The name in an entry's key. Must hold: the key lies in the range above.
inline std::string_view entry_name(std::string_view dir_home, std::string_view key) {
  return key.substr(dir_home.size() + 1);
}
// The first key after all those that start with `prefix`. Must hold: prefix is not all 0xff.
std::string prefix_end(std::string_view prefix);

// ---- family blocks
std::string block(std::string_view home, BlockIndex index);
// The index in such a key; nullopt when it has none. Must hold: it starts with a home of home_size bytes.
std::optional<std::uint64_t> block_index(std::string_view key, std::size_t home_size);

// Whether it can be the name of an entry: 1 to kNameMax bytes without 0x00 and '/', and neither "." nor "..".
bool is_name(std::string_view name);

// ---- reading keys. nullopt: no key of this grammar. The views point into the key.

// A key of family names outside of the rows that start with '/'.
struct NamesKey {
  enum class Kind : std::uint8_t { root, entry, xattr } kind;
  std::string_view home;  // of the directory, or of the inode with the attribute
  Ino ino;                // in that home's last component; the root's for an empty home
  std::string_view name;  // of the entry or the attribute; empty for the root's own record
};
std::optional<NamesKey> parse_names(std::string_view key);

struct BlocksKey {
  std::string_view home;
  Ino ino;
  BlockIndex index;
};
std::optional<BlocksKey> parse_block(std::string_view key);

struct BlobKey {
  Ino ino;  // the number in the file's home
  BlockIndex first;
};
std::optional<BlobKey> parse_blob(std::string_view key);
std::optional<BlobKey> parse_blob_patch(std::string_view key);  // `first` is the block

std::optional<Ino> parse_node(std::string_view key);

std::optional<std::uint64_t> parse_change(std::string_view key);

struct UserKey {
  Ino base, user;
};
std::optional<UserKey> parse_user(std::string_view key);

// The number that a home ends in, and the root's of an empty one; nullopt: it is no home.
std::optional<Ino> number_of(std::string_view home);
// What comes before its last name. Must hold: number_of() knows the home, which is not empty.
std::string_view parent_of(std::string_view home);
// The same place under another number. Must hold: number_of() knows the home, which is not empty.
std::string with_number(std::string_view home, Ino number);

// The names in a home, as far as it follows the grammar, with slashes between them: the path as it was when the inode
// got this home, or "..." and the end of it.
std::string path_of(std::string_view home);

}  // namespace lsmfs::keys
