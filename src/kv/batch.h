// kv/batch: what a Batch holds until it is committed.
//
// A rocksdb::WriteBatch, which is what goes to the log and the memtables as it stands: file data
// is copied into it once. It wants a handle of the database at each put, but a Batch is made before
// it meets a store; all that is read from the handle is the family's number, and those are fixed.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/kv.h"

namespace lsmfs {

namespace kv {

struct ErasedRange {
  Family family;
  std::string from, to;
  std::uint64_t rows = 0;  // as far as is known
};

// The rows of one family erased singly: all lie within [first, last].
struct ErasedRows {
  std::string first, last;
  std::uint64_t rows = 0;

  void add(std::string_view low, std::string_view high, std::uint64_t n) {
    if (rows == 0 || low < std::string_view(first)) first = low;
    if (rows == 0 || high > std::string_view(last)) last = high;
    rows += n;
  }
};

// What Batch::know() says.
struct Known {
  LostRange range;
  std::optional<std::uint64_t> as_of;
};

// The number that RocksDB gives each family: names is its default family, blocks the first created.
inline constexpr std::uint32_t family_number(Family family) { return family == Family::names ? 0 : 1; }
inline constexpr Family kFamilies[] = {Family::names, Family::blocks};

}  // namespace kv

struct Batch::Rep {
  rocksdb::WriteBatch out;
  rocksdb::Status status;                // the first refusal, if any: a key or value over 4 GiB
  std::vector<kv::ErasedRange> ranges;   // those of erase_range once more, for kv/keeper

  kv::ErasedRows erased[2];              // by family number: what erase() took
  std::vector<kv::Known> known;          // what know() said
  std::optional<std::uint64_t> rows;     // what note_rows() said
  std::uint64_t in_bulk = 0;             // likewise

  void note(const rocksdb::Status& done) {
    if (status.ok()) status = done;
  }
};

}  // namespace lsmfs
