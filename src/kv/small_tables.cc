#include "kv/small_tables.h"

#include <rocksdb/options.h>

#include <algorithm>

#include "kv/levels.h"
#include "kv/sizing.h"

namespace lsmfs::kv {

namespace {

// Its tables by key; none: all lie in level 0.
const rocksdb::LevelMetaData* last_of(const rocksdb::ColumnFamilyMetaData& facts) {
  const int last = last_level(facts);
  return last > 0 ? &*std::ranges::find(facts.levels, last, &rocksdb::LevelMetaData::level) : nullptr;
}

}  // namespace

std::uint64_t lost_in_small_tables(const rocksdb::ColumnFamilyMetaData& facts, std::uint64_t target) {
  std::uint64_t lost = 0;
  if (const auto* last = last_of(facts)) {
    for (const auto& table : last->files) lost += table.size < target / 2 ? on_volume(table.size) - table.size : 0;
  }
  return lost;
}

std::vector<std::string> small_neighbours(const rocksdb::ColumnFamilyMetaData& facts, std::uint64_t target) {
  const auto* const level = last_of(facts);
  if (level == nullptr) return {};
  const auto& tables = level->files;
  // A window over the tables, as wide as fits.
  std::uint64_t size = 0, taken = 0, most = 0;
  std::size_t from = 0, best_from = 0, best_to = 0;
  for (std::size_t to = 0; to < tables.size(); ++to) {
    const auto& last = tables[to];
    size += last.size;
    taken += on_volume(last.size);
    if (last.being_compacted) {
      from = to + 1;
      size = taken = 0;
      continue;
    }
    for (; size > target; ++from) {
      size -= tables[from].size;
      taken -= on_volume(tables[from].size);
    }
    const std::uint64_t after = on_volume(size);
    if (2 * after > taken || taken - after <= most) continue;
    most = taken - after;
    best_from = from;
    best_to = to + 1;
  }
  std::vector<std::string> files;
  for (std::size_t i = best_from; i < best_to; ++i) files.push_back(tables[i].name);
  return files;
}

bool merge_small_neighbours(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, std::uint64_t target) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(handle, &facts);
  const std::vector<std::string> files = small_neighbours(facts, target);
  if (files.size() < 2) return false;
  rocksdb::CompactionOptions options;
  options.compression = rocksdb::kDisableCompressionOption;  // that of the family
  options.output_file_size_limit = target;
  return db.CompactFiles(options, handle, files, last_level(facts)).ok();
}

}  // namespace lsmfs::kv
