#include "kv/widest.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kv/sizing.h"

namespace lsmfs::kv {
namespace {

// The tables of a level in the order of their keys, which do not overlap.
class Level {
 public:
  explicit Level(const rocksdb::LevelMetaData& level) {
    for (const auto& table : level.files) tables_.push_back(&table);
    std::ranges::sort(tables_, {}, [](const auto* table) -> const std::string& { return table->smallestkey; });
    sums_.push_back(0);
    for (const auto* table : tables_) sums_.push_back(sums_.back() + on_volume(table->size));
  }

  // Those of them that overlap a range, by number.
  struct Run {
    std::size_t begin, end;
    bool empty() const { return begin == end; }
  };
  Run overlapping(const std::string& smallest, const std::string& largest) const {
    const auto begin = std::ranges::lower_bound(tables_, smallest, {}, [](const auto* table) -> const std::string& { return table->largestkey; });
    const auto end = std::ranges::upper_bound(begin, tables_.end(), largest, {}, [](const auto* table) -> const std::string& { return table->smallestkey; });
    return {static_cast<std::size_t>(begin - tables_.begin()), static_cast<std::size_t>(end - tables_.begin())};
  }
  std::uint64_t bytes(const Run& run) const { return sums_[run.end] - sums_[run.begin]; }
  const std::string& smallest(const Run& run) const { return tables_[run.begin]->smallestkey; }
  const std::string& largest(const Run& run) const { return tables_[run.end - 1]->largestkey; }
  const std::vector<const rocksdb::SstFileMetaData*>& tables() const { return tables_; }

 private:
  std::vector<const rocksdb::SstFileMetaData*> tables_;
  std::vector<std::uint64_t> sums_;  // of the bytes of all before
};

}  // namespace

std::uint64_t widest_merge(const rocksdb::ColumnFamilyMetaData& facts) {
  std::uint64_t widest = 0;
  for (std::size_t i = 1; i + 1 < facts.levels.size(); ++i) {
    const Level upper(facts.levels[i]), lower(facts.levels[i + 1]);
    for (const auto* table : upper.tables()) {
      const Level::Run below = lower.overlapping(table->smallestkey, table->largestkey);
      if (below.empty()) continue;
      const Level::Run beside = upper.overlapping(std::min(table->smallestkey, lower.smallest(below)), std::max(table->largestkey, lower.largest(below)));
      widest = std::max(widest, lower.bytes(below) + upper.bytes(beside));
    }
  }
  return widest;
}

}  // namespace lsmfs::kv
