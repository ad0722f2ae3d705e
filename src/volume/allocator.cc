#include "volume/allocator.h"

#include <algorithm>

namespace lsmfs {

Allocator::Allocator(std::uint64_t start, std::uint64_t length, std::uint64_t granule)
    : start_(start), length_(length), granule_(granule) {
  if (length > 0) insert(start, length);
}

void Allocator::insert(std::uint64_t start, std::uint64_t length) {
  by_start_.emplace(start, length);
  by_length_.emplace(length, start);
  free_ += length;
}

void Allocator::erase(std::map<std::uint64_t, std::uint64_t>::iterator run) {
  by_length_.erase({run->second, run->first});
  free_ -= run->second;
  by_start_.erase(run);
}

bool Allocator::contains(const Extent& e) const {
  if (e.length == 0 || e.start < start_ || (e.start - start_) % granule_ != 0 || e.length % granule_ != 0) return false;
  return e.start - start_ < length_ && e.length <= length_ - (e.start - start_);
}

std::optional<Extent> Allocator::allocate_run(std::uint64_t length, End end) {
  length = round_up(length, granule_);
  auto fit = by_length_.lower_bound({length, 0});
  if (length == 0 || fit == by_length_.end()) return std::nullopt;
  if (end == End::high) {
    // Among runs of the same length the one nearest to the high end.
    fit = std::prev(by_length_.lower_bound({fit->first + 1, 0}));
  }
  const Extent run{fit->second, fit->first};
  const Extent taken{end == End::low ? run.start : run.end() - length, length};
  take(taken);
  return taken;
}

std::optional<std::vector<Extent>> Allocator::allocate(std::uint64_t length, End end, std::uint64_t min_piece) {
  std::uint64_t left = round_up(length, granule_);
  if (left == 0 || left > free_) return std::nullopt;
  std::vector<Extent> pieces;
  while (left > 0) {
    if (auto run = allocate_run(left, end)) {
      pieces.push_back(*run);
      break;
    }
    std::uint64_t piece = largest();
    // Rather two decent pieces than a large one and a crumb.
    if (left - piece < min_piece) {
      const std::uint64_t lack = round_up(min_piece - (left - piece), granule_);
      if (piece >= min_piece + lack) piece -= lack;
    }
    auto run = allocate_run(piece, end);
    if (!run) break;  // cannot be: left <= free_
    pieces.push_back(*run);
    left -= run->length;
  }
  return pieces;
}

bool Allocator::take(const Extent& extent) {
  if (!contains(extent)) return false;
  auto run = by_start_.upper_bound(extent.start);
  if (run == by_start_.begin()) return false;
  --run;
  const Extent whole{run->first, run->second};
  if (extent.end() > whole.end()) return false;
  erase(run);
  if (extent.start > whole.start) insert(whole.start, extent.start - whole.start);
  if (whole.end() > extent.end()) insert(extent.end(), whole.end() - extent.end());
  return true;
}

bool Allocator::release(const Extent& extent) {
  if (!contains(extent)) return false;
  auto next = by_start_.lower_bound(extent.start);
  if (next != by_start_.end() && next->first < extent.end()) return false;
  auto previous = by_start_.end();
  if (next != by_start_.begin()) {
    previous = std::prev(next);
    if (previous->first + previous->second > extent.start) return false;
  }
  std::uint64_t start = extent.start, end = extent.end();
  if (next != by_start_.end() && next->first == end) {
    end += next->second;
    erase(next);
  }
  if (previous != by_start_.end() && previous->first + previous->second == start) {
    start = previous->first;
    erase(previous);
  }
  insert(start, end - start);
  return true;
}

void Allocator::grow(std::uint64_t length) {
  const Extent more{start_ + length_, round_down(length, granule_)};
  length_ += more.length;
  if (more.length > 0) release(more);
}

std::uint64_t Allocator::free_at(std::uint64_t at) const {
  auto run = by_start_.find(at);
  return run == by_start_.end() ? 0 : run->second;
}

std::optional<Extent> Allocator::free_run(std::uint64_t at) const {
  auto run = by_start_.upper_bound(at);
  if (run != by_start_.begin() && std::prev(run)->first + std::prev(run)->second > at) --run;
  if (run == by_start_.end()) return std::nullopt;
  return Extent{run->first, run->second};
}

}  // namespace lsmfs
