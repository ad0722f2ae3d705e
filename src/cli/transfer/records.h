// The records of a stream that lsmfs send writes and lsmfs receive reads: docs/streams.md has the format.
//
// What it is not: it neither frames nor checks them (frames.h), and knows nothing of files. A decoder takes any bytes, and gives a record only of
// those that an encoder can have made. Paths that it gives lead nowhere but below the directory that they are of.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/tree.h"

namespace lsmfs::cli {

// By which a snapshot is known wherever it is received: the volume that it was made in, its inode number there, and when that was.
struct SnapshotId {
  Uuid volume;
  std::uint64_t number = 0;
  Time made;
  friend bool operator==(const SnapshotId&, const SnapshotId&) = default;
};

struct NamedSnapshot {
  SnapshotId id;
  std::string name;
  friend bool operator==(const NamedSnapshot&, const NamedSnapshot&) = default;
};

// How far a stream has come: how many records, and the checksum of all of them.
struct StreamPoint {
  std::uint64_t records = 0, chain = 0;
  friend bool operator==(const StreamPoint&, const StreamPoint&) = default;
};

// What a stream is of; the same for all of its parts.
struct StreamOf {
  NamedSnapshot snapshot;
  std::optional<NamedSnapshot> base;  // nullopt: all of it is sent
  bool without_holes = false;         // they are sent as zeros, since the mount told of none; so its records are others
  friend bool operator==(const StreamOf&, const StreamOf&) = default;
};

// The first record, which is not counted.
struct BeginRecord {
  StreamOf of;
  StreamPoint from;  // where this part goes on; of a stream that is whole, its beginning
  friend bool operator==(const BeginRecord&, const BeginRecord&) = default;
};

// ---- first what has gone from where it was, the deepest first

struct TakeRecord {  // it will be placed elsewhere
  std::string path;
  std::uint64_t number = 0;
  friend bool operator==(const TakeRecord&, const TakeRecord&) = default;
};
struct RemoveRecord {  // with all that is below it
  std::string path;
  friend bool operator==(const RemoveRecord&, const RemoveRecord&) = default;
};
struct RemovedRecord {  // that was all
  friend bool operator==(const RemovedRecord&, const RemovedRecord&) = default;
};

// ---- then what is new or has changed

struct PlaceRecord {
  std::string path;
  std::uint64_t number = 0;  // of what was taken
  friend bool operator==(const PlaceRecord&, const PlaceRecord&) = default;
};
// The inode that the records up to the next AttributesRecord are about.
struct NodeRecord {
  enum class Contents : std::uint8_t { fresh, replaced, kept };  // there is nothing of that name yet; its data is given anew; or as it differs
  std::string path;                                              // "" is the directory itself, which is always there
  Contents contents = Contents::fresh;
  std::uint32_t type = 0;  // S_IFREG and its like
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t device = 0;  // of S_IFCHR and S_IFBLK
  std::string target;        // of S_IFLNK
  friend bool operator==(const NodeRecord&, const NodeRecord&) = default;
};
struct DataRecord {
  std::uint64_t offset = 0;
  std::string bytes;
  friend bool operator==(const DataRecord&, const DataRecord&) = default;
};
struct HoleRecord {  // there is no data any more
  std::uint64_t offset = 0, count = 0;
  friend bool operator==(const HoleRecord&, const HoleRecord&) = default;
};
struct XattrRecord {
  std::string name, value;
  friend bool operator==(const XattrRecord&, const XattrRecord&) = default;
};
struct AttributesRecord {
  std::uint32_t mode = 0;  // permissions
  std::uint64_t size = 0;  // of regular files
  Time accessed, modified;
  std::uint32_t flags = 0;          // as of chattr, but those of FlagsRecord
  std::vector<std::string> xattrs;  // of all that it has
  friend bool operator==(const AttributesRecord&, const AttributesRecord&) = default;
};
struct LinkRecord {  // another name of a file that is there
  std::string path, existing;
  friend bool operator==(const LinkRecord&, const LinkRecord&) = default;
};

// ---- at last what lets nothing be changed any more

struct FlagsRecord {
  std::string path;
  std::uint32_t flags = 0;  // all of them
  friend bool operator==(const FlagsRecord&, const FlagsRecord&) = default;
};
struct EndRecord {
  std::uint64_t records = 0, bytes = 0;  // of the whole stream: before this one, and of data in them
  friend bool operator==(const EndRecord&, const EndRecord&) = default;
};

using StreamRecord = std::variant<BeginRecord, TakeRecord, RemoveRecord, RemovedRecord, PlaceRecord, NodeRecord, DataRecord, HoleRecord, XattrRecord, AttributesRecord, LinkRecord,
                                  FlagsRecord, EndRecord>;

inline constexpr std::uint64_t kStreamDataMost = MiB;                  // of one record
inline constexpr std::size_t kStreamPayloadMost = kStreamDataMost + 64;  // what a record is at most when it is encoded
inline constexpr std::uint32_t kLockingFlags = 0x30;  // immutable, append-only: FS_IMMUTABLE_FL, FS_APPEND_FL
inline constexpr std::uint32_t kStreamFlags = 0xf0;   // and those that others have to know: FS_NODUMP_FL, FS_NOATIME_FL

// Whether it leads down from a directory, to something else than that: names with one slash between them, none of which is "." or "..".
bool is_path_below(std::string_view path);
std::uint8_t record_type(const StreamRecord& record);
std::string encode_payload(const StreamRecord& record);
// nullopt: it is none that can be.
std::optional<StreamRecord> decode_payload(std::uint8_t type, std::string_view payload);

// With which the checksums of a stream begin, so that records of another one do not fit.
std::uint64_t chain_of(const StreamOf& of);

// Where a stream that was received in part goes on, as one word for people to hand over.
std::string token_of(const BeginRecord& begin);
std::optional<BeginRecord> parse_token(std::string_view text);

}  // namespace lsmfs::cli
