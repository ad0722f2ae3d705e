#include "kv/compact.h"

#include <rocksdb/metadata.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kv/levels.h"
#include "kv/sizing.h"

namespace lsmfs::kv {

namespace {

struct Piece {
  std::optional<std::string> end;  // nothing: that of the range
  bool layered = false;            // tables above the last level overlap it
};

rocksdb::ColumnFamilyMetaData tables(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(handle, &facts);
  return facts;
}

Piece next_piece(const rocksdb::ColumnFamilyMetaData& facts, const std::string& from, const std::string& to, std::uint64_t bytes) {
  const int last = last_level(facts);
  // Level 0 is small and goes down as a whole with the first piece.
  std::vector<std::pair<std::string, std::uint64_t>> begins;
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      if (level.level > 0 && table.smallestkey > from && (to.empty() || table.smallestkey < to)) {
        begins.emplace_back(table.smallestkey, on_volume(table.size));
      }
    }
  }
  std::sort(begins.begin(), begins.end());
  Piece piece;
  std::uint64_t sum = 0;
  for (auto& [key, size] : begins) {
    sum += size;
    if (sum > bytes) {
      piece.end = std::move(key);
      break;
    }
  }
  const std::string& end = piece.end ? *piece.end : to;
  for (const auto& level : facts.levels) {
    if (level.level == last && last > 0) continue;
    for (const auto& table : level.files) {
      if (table.largestkey >= from && (end.empty() || table.smallestkey <= end)) piece.layered = true;
    }
  }
  return piece;
}

}  // namespace

rocksdb::Status compact_in_pieces(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::CompactRangeOptions& options,
                                  std::string_view from, std::string_view to, std::uint64_t piece,
                                  const std::function<void()>& before_each) {
  const bool all = options.bottommost_level_compaction != rocksdb::BottommostLevelCompaction::kSkip;
  rocksdb::ColumnFamilyMetaData facts = tables(db, handle);
  std::string begin(from);
  const std::string range_end(to);
  while (true) {
    before_each();
    const Piece next = next_piece(facts, begin, range_end, piece);
    const std::string& end = next.end ? *next.end : range_end;
    if (all || next.layered) {
      const rocksdb::Slice first(begin), last(end);
      const rocksdb::Status status = db.CompactRange(options, handle, begin.empty() ? nullptr : &first, end.empty() ? nullptr : &last);
      if (!status.ok()) return status;
      facts = tables(db, handle);
    }
    if (!next.end) return rocksdb::Status::OK();
    begin = *next.end;
  }
}

}  // namespace lsmfs::kv
