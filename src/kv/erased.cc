#include "kv/erased.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lsmfs::kv {

namespace {

// A row of blocks has up to 4 KiB, a name's record some 150 bytes.
std::uint64_t bytes_of(std::uint64_t rows, Family family) { return rows * (family == Family::blocks ? 4096 : 150); }

}  // namespace

bool Erased::rows_hold(std::uint64_t bytes) const {
  return bytes_of(work_.rows[0].rows, Family::names) + bytes_of(work_.rows[1].rows, Family::blocks) >= bytes;
}

bool Erased::many_ranges() const {
  std::uint64_t bytes = 0;
  for (const ErasedRange& range : work_.ranges) bytes += bytes_of(range.rows, range.family);
  return work_.ranges.size() >= kRangesToFlush || bytes >= worth_;
}

void Erased::note(const std::vector<ErasedRange>& ranges, const ErasedRows (&rows)[2], Clock::Time now) {
  work_.ranges.insert(work_.ranges.end(), ranges.begin(), ranges.end());
  for (const Family family : {Family::names, Family::blocks}) {
    const ErasedRows& more = rows[family_number(family)];
    if (more.rows > 0) work_.rows[family_number(family)].add(more.first, more.last, more.rows);
  }
  rest(now);
}

void Erased::rest(Clock::Time now) {
  if (!resting()) {
    rested_ = Clock::kNever;
  } else if (rested_ == Clock::kNever) {
    rested_ = now + kRest;
  }
}

void Erased::passed(Family family, std::string_view from, std::string_view to, std::uint64_t rows) {
  const auto meets = [&](const ErasedRange& range) { return range.family == family && range.from <= to && from <= range.to; };
  ErasedRange all{family, std::string(from), std::string(to), rows};
  for (const ErasedRange& range : passed_) {
    if (!meets(range)) continue;
    all.from = std::min(all.from, range.from);
    all.to = std::max(all.to, range.to);
    all.rows += range.rows;
  }
  std::erase_if(passed_, meets);
  many_passed_ = many_passed_ || all.rows >= kPassedToCompact;
  if (passed_.size() >= kPlaces) passed_.erase(std::ranges::min_element(passed_, {}, &ErasedRange::rows));
  passed_.push_back(std::move(all));
}

Clock::Time Erased::due() const { return many_ranges() || many_rows() || many_passed_ ? Clock::Time() : rested_; }

Erased::Work Erased::take(Clock::Time now) {
  const bool rested = now >= rested_;
  Work taken;
  if (rested || many_ranges()) std::swap(taken.ranges, work_.ranges);
  if (rested ? rows_hold(worth_ / 2) : many_rows()) std::swap(taken.rows, work_.rows);
  if (many_passed_) {
    const auto often = [](const ErasedRange& range) { return range.rows >= kPassedToCompact; };
    std::ranges::copy_if(passed_, std::back_inserter(taken.ranges), often);
    std::erase_if(passed_, often);
    many_passed_ = false;
  }
  rest(now);
  return taken;
}

Erased::Work Erased::take_all() {
  rested_ = Clock::kNever;
  return std::exchange(work_, {});
}

}  // namespace lsmfs::kv
