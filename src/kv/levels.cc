#include "kv/levels.h"

#include <algorithm>

namespace lsmfs::kv {

int level0_goes_to(const rocksdb::ColumnFamilyMetaData& facts, int base, std::uint64_t base_most, int fanout) {
  std::uint64_t largest = 0;
  int next = 0;  // the first that has tables
  for (const auto& level : facts.levels) {
    if (level.level == 0 || level.files.empty()) continue;
    if (next == 0) next = level.level;
    largest = std::max(largest, level.size);
  }
  const int bottom = facts.levels.back().level;
  if (next <= base || next == bottom) return base;
  double near = 2 * static_cast<double>(base_most);
  for (int level = next; level < bottom; ++level) near *= fanout;
  return static_cast<double>(largest) <= near ? next : base;
}

}  // namespace lsmfs::kv
