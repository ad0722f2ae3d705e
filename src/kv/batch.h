// kv/batch: what a Batch holds until it is committed.
//
// A log of operations of our own and not a rocksdb::WriteBatch, because that one wants the
// database's handles at each put, and a batch is made before it meets a store. It also stays
// whole when a commit is refused with EAGAIN.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/kv.h"

namespace lsmfs {

namespace kv {
struct ErasedRange {
  Family family;
  std::string from, to;
};
}  // namespace kv

struct Batch::Rep {
  enum class Op : std::uint8_t { put, merge, erase, erase_range };

  // Each operation: u8 op | u8 family | string key | string value, operand or end of range.
  // Only ever read by write_to(), in the same process.
  std::string log;
  std::uint32_t count = 0;

  void add(Op op, Family family, std::string_view key, std::string_view value);
  // Appends all operations to `out` in order. handles: names, blocks.
  rocksdb::Status write_to(rocksdb::WriteBatch& out, rocksdb::ColumnFamilyHandle* const (&handles)[2]) const;

  std::vector<kv::ErasedRange> ranges;  // those of erase_range once more, for kv/keeper
};

}  // namespace lsmfs
