// kv/set_aside: blocks of tables that are damaged, and are read as blocks without rows from then on.
//
// RocksDB has no compaction that leaves out a part of a table: one that meets a damaged block fails, and so does every later one
// there. So the table files give an empty block in its place, under a checksum that is right. What it held is known to be
// lost by then (kv/lost), and when the table has been merged into others the damaged block is gone.
// What it is not: durable. kv/quarantine writes down which blocks these are, and adds them again after a restart.
//
// Threads: all functions, from any thread.
#pragma once

#include <rocksdb/status.h>

#include <atomic>
#include <compare>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

// A block of a table, as its index refers to it: without its trailer.
struct TableBlock {
  std::uint64_t table = 0;  // RocksDB's number of the file
  std::uint64_t offset = 0, size = 0;
  auto operator<=>(const TableBlock&) const = default;
};

// The block whose checksum is wrong, by what RocksDB says of it; nullopt: it says that of none, or of one too small for an empty
// block in its place (some 20 bytes: none that lsmfs writes).
std::optional<TableBlock> damaged_block(const rocksdb::Status& status);

// The number in the name of a table; nullopt: of something else.
std::optional<std::uint64_t> table_number(std::string_view name);

class SetAside {
 public:
  void add(const TableBlock& block);
  bool has(const TableBlock& block) const;
  std::vector<TableBlock> all() const;
  void forget(std::uint64_t table);  // which has gone
  // Puts empty blocks in the place of those among `data`, which was read from a table at `offset`.
  void cover(std::uint64_t table, std::uint64_t offset, MutableBytes data) const;

 private:
  std::atomic<bool> any_ = false;
  mutable Mutex mutex_;
  std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> blocks_ LSMFS_GUARDED_BY(mutex_);  // of each table: sizes by offset
};

}  // namespace lsmfs::kv
