#include "tree/row_map.h"

#include <algorithm>
#include <cassert>
#include <iterator>

namespace lsmfs {

RowMap::RowMap(std::uint64_t rows, Memory& memory) : memory_(memory) { add(0, rows); }

RowMap::~RowMap() { memory_.runs -= runs_.size(); }

void RowMap::count_runs(std::size_t before) {
  memory_.runs += runs_.size() - before;
  if (memory_.runs <= Memory::kMost) return;
  memory_.runs -= runs_.size();
  runs_.clear();
  known_ = false;
}

// No run goes on over `at`.
void RowMap::split(std::uint64_t at) {
  auto run = runs_.lower_bound(at);
  if (run == runs_.begin()) return;
  --run;
  if (run->second <= at) return;
  runs_.emplace(at, run->second);
  run->second = at;
}

void RowMap::add(std::uint64_t from, std::uint64_t to) {
  if (from >= to || !known_) return;
  const std::size_t before = runs_.size();
  auto run = runs_.upper_bound(from);
  if (run != runs_.begin() && std::prev(run)->second >= from) {
    --run;
    from = run->first;
  }
  while (run != runs_.end() && run->first <= to) {
    to = std::max(to, run->second);
    run = runs_.erase(run);
  }
  runs_.emplace(from, to);
  count_runs(before);
}

void RowMap::remove(std::uint64_t from, std::uint64_t to) {
  if (from >= to || !known_) return;
  const std::size_t before = runs_.size();
  split(from);
  split(to);
  runs_.erase(runs_.lower_bound(from), runs_.lower_bound(to));
  count_runs(before);
}

std::uint64_t RowMap::count(std::uint64_t from, std::uint64_t to) const {
  assert(known_);
  std::uint64_t n = 0;
  auto run = runs_.upper_bound(from);
  if (run != runs_.begin()) --run;
  for (; run != runs_.end() && run->first < to; ++run) {
    const std::uint64_t begin = std::max(run->first, from), end = std::min(run->second, to);
    if (begin < end) n += end - begin;
  }
  return n;
}

std::vector<std::uint64_t> RowMap::first(std::uint64_t from, std::uint64_t to, std::size_t most) const {
  assert(known_);
  std::vector<std::uint64_t> found;
  for (auto at = next(from); at && *at < to && found.size() < most; at = next(*at + 1)) found.push_back(*at);
  return found;
}

std::optional<std::uint64_t> RowMap::last(std::uint64_t from, std::uint64_t to) const {
  assert(known_);
  const auto run = runs_.lower_bound(to);
  if (run == runs_.begin()) return std::nullopt;
  const std::uint64_t end = std::min(std::prev(run)->second, to);
  return end > from ? std::optional(end - 1) : std::nullopt;
}

std::optional<std::uint64_t> RowMap::next(std::uint64_t block) const {
  assert(known_);
  const auto run = runs_.upper_bound(block);
  if (run != runs_.begin() && std::prev(run)->second > block) return block;
  return run != runs_.end() ? std::optional(run->first) : std::nullopt;
}

std::uint64_t RowMap::next_hole(std::uint64_t block) const {
  assert(known_);
  const auto run = runs_.upper_bound(block);
  return run != runs_.begin() && std::prev(run)->second > block ? std::prev(run)->second : block;
}

}  // namespace lsmfs
