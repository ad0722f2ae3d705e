// The durable facts of a volume: which files exist and which extents they own, as the records of
// the metadata log tell it. Replay at open and the commits at run time go through the same apply(),
// so that what is written has been read by the reader's own rules first.
//
// What it is not: it does no I/O and knows nothing of open files or of what is not yet durable.
// Not safe for several threads at once.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "volume/allocator.h"
#include "volume/superblock.h"

namespace lsmfs {

inline constexpr std::size_t kFileNameMax = 255;

struct FileRecord {
  std::uint64_t id = 0;
  FileKind kind = FileKind::table;
  std::uint64_t seed = 0;  // random; part of the checksums of a log's frames
  std::string name;
  std::vector<Extent> extents;  // in the order of the file's bytes
  std::uint64_t allocated = 0;  // their total length, for the catalog: a hostile log has millions of them
  std::uint64_t size = 0;       // table and small: the bytes that count
  // log: the frames up to cut_sequence hold at most cut_size bytes of the file (0: no cut).
  std::uint64_t cut_sequence = 0, cut_size = 0;
  std::uint64_t synced_sequence = 0;  // log: frames known to be durable
};

// Adds an extent to a list, joining it to the last one where they touch.
void append_extent(std::vector<Extent>& extents, const Extent& extent);
std::uint64_t total_length(const std::vector<Extent>& extents);
// Cuts the list at `from` bytes and gives what was behind. `total`: its length, which takes time to sum up.
std::vector<Extent> cut_extents(std::vector<Extent>& extents, std::uint64_t from);
std::vector<Extent> cut_extents(std::vector<Extent>& extents, std::uint64_t from, std::uint64_t total);

// ---- the operations of a record
void put_create(std::string& out, std::uint64_t id, FileKind kind, std::uint64_t seed, std::string_view name);
void put_extents(std::string& out, std::uint64_t id, std::uint64_t from, const std::vector<Extent>& extents);
void put_size(std::string& out, std::uint64_t id, std::uint64_t size);
void put_rename(std::string& out, std::uint64_t id, std::string_view name);
void put_remove(std::string& out, std::uint64_t id);
void put_cut(std::string& out, std::uint64_t id, std::uint64_t sequence, std::uint64_t size);
void put_synced(std::string& out, std::uint64_t id, std::uint64_t sequence);
void put_next_id(std::string& out, std::uint64_t id);

// Upper bounds of what a file and each of its extents take in a snapshot.
inline constexpr std::uint64_t kSnapshotFileBytes = 112;  // without the name
inline constexpr std::uint64_t kSnapshotExtentBytes = 20;

class Catalog {
 public:
  explicit Catalog(const Layout& layout);

  // Carries out all operations of a record. EUCLEAN at the first that is impossible; then the
  // catalog is of no use any more.
  Result<void> apply(std::string_view payload);
  // Operations that make an empty catalog equal to this one.
  std::string snapshot() const;

  // The table region goes on behind its end, with so many bytes more.
  void grow(std::uint64_t length) { table_.grow(length); }

  const std::map<std::uint64_t, FileRecord>& files() const { return files_; }
  std::uint64_t next_id() const { return next_id_; }
  // The free granules when nothing but the files here is on the device.
  const Allocator& fixed() const { return fixed_; }
  const Allocator& table() const { return table_; }

 private:
  Result<void> apply_one(Reader& in);
  Result<void> set_extents(FileRecord& file, std::uint64_t from, const std::vector<Extent>& added);
  Result<void> give_name(std::uint64_t id, std::string_view name);
  Result<void> erase(std::uint64_t id);
  Result<void> release(const std::vector<Extent>& extents);
  FileRecord* find(std::uint64_t id);

  std::map<std::uint64_t, FileRecord> files_;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::uint64_t next_id_ = 1;
  Allocator fixed_, table_;
};

}  // namespace lsmfs
