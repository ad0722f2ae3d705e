#include "kv/live.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace lsmfs::kv {

namespace {

double bytes_per_row(const Live::Table& table) {
  return table.rows > 0 ? static_cast<double>(table.bytes) / static_cast<double>(table.rows) : 0;
}

}  // namespace

void Live::begin(std::uint64_t rows) {
  known_ = true;
  in_tables_ = now_ = {.sequence = 0, .rows = static_cast<double>(rows)};
  bulk_rows_ = taken_in_ = 0;
  moments_.clear();
  estimate();
}

// The tables of the last level, as indexes [first, second), among which keys from `first` to `last` may be, that or not.
std::pair<std::size_t, std::size_t> Live::overlapped(std::string_view first, std::string_view last, bool last_too) const {
  const auto begin = std::ranges::lower_bound(bottom_, first, {}, &Place::last);
  const auto end = std::partition_point(begin, bottom_.end(), [&](const Place& place) { return last_too ? place.first <= last : place.first < last; });
  return {static_cast<std::size_t>(begin - bottom_.begin()), static_cast<std::size_t>(end - bottom_.begin())};
}

void Live::erase(std::string_view from, std::string_view to, bool last_too, std::uint64_t rows) {
  if (rows == 0) return;
  const auto [begin, end] = overlapped(from, to, last_too);
  double there = 0;
  for (std::size_t i = begin; i < end; ++i) there += static_cast<double>(bottom_[i].rows);
  const double n = static_cast<double>(rows);
  now_.erased_rows += n;
  double left = n;
  for (std::size_t i = begin; i < end; ++i) {
    Place& place = bottom_[i];
    if (place.rows == 0) continue;  // tombstones alone
    const double all = static_cast<double>(place.rows), share = std::min(n * all / there, std::max(all - place.erased, 0.0));
    place.erased += share;
    now_.erased_bytes += share * bytes_per_row(place);
    left -= share;
  }
  // They are not in the last level: of what has come since the last flush, or in tables above.
  const double fresh = std::min(left, new_rows());
  now_.erased_bytes += fresh * new_row_bytes();
  if (left > fresh) now_.erased_bytes += (left - fresh) * row_bytes_above(from, to);
}

double Live::row_bytes_above(std::string_view from, std::string_view to) const {
  Table all;
  for (const Place& place : upper_) {
    if (place.first > to || place.last < from) continue;
    all.rows += place.rows;
    all.bytes += place.bytes;
  }
  return bytes_per_row(all);
}

double Live::new_rows() const {
  return std::max(now_.rows - in_tables_.rows + now_.erased_rows - in_tables_.erased_rows, 0.0);
}

double Live::new_row_bytes() const { return std::min(kRowBytes, (now_.bytes - in_tables_.bytes) / std::max(new_rows(), 1.0)); }

void Live::committed(std::uint64_t sequence, std::uint64_t bytes, std::uint64_t rows, const std::vector<ErasedRange>& ranges,
                     const ErasedRows& erased, std::int64_t in_bulk) {
  if (!known_) begin(rows);
  now_.sequence = sequence;
  now_.bytes += static_cast<double>(bytes);
  bulk_rows_ += static_cast<double>(in_bulk);
  now_.rows = static_cast<double>(rows) - bulk_rows_;
  for (const ErasedRange& range : ranges) {
    if (range.family == Family::blocks) erase(range.from, range.to, false, range.rows);
  }
  erase(erased.first, erased.last, true, erased.rows);
  if (++commits_ % stride_ == 0) moments_.push_back(now_);
  if (moments_.size() < kMoments) return;
  // Of small commits every second will do.
  std::size_t kept = 0;
  for (std::size_t i = 1; i < moments_.size(); i += 2) moments_[kept++] = moments_[i];
  moments_.resize(kept);
  stride_ *= 2;
}

void Live::bulk_taken_in(std::uint64_t rows) { taken_in_ += static_cast<double>(rows); }

void Live::measured(std::vector<Table> tables, std::uint64_t flushed) {
  while (!moments_.empty() && in_tables_.sequence < flushed) {
    in_tables_ = moments_.front();
    moments_.pop_front();
  }
  if (in_tables_.sequence < flushed && now_.sequence >= flushed) in_tables_ = now_;
  if (moments_.empty()) stride_ = 1;
  std::vector<Place> before = std::exchange(bottom_, {});
  upper_.clear();
  table_bytes_ = 0;
  for (Table& table : tables) {
    table_bytes_ += table.bytes;
    auto& level = table.bottom ? bottom_ : upper_;
    level.push_back({std::move(table)});
  }
  std::ranges::sort(bottom_, {}, &Place::first);
  pass_on_erased(before);
  estimate();
}

// What was erased of a table is so of those that it was merged into, as far as that has not dropped it.
void Live::pass_on_erased(std::vector<Place>& before) {
  std::unordered_map<std::uint64_t, Place*> gone, made;
  for (Place& place : before) gone.emplace(place.number, &place);
  for (Place& place : bottom_) {
    if (const auto same = gone.find(place.number); same != gone.end()) {
      place.erased = same->second->erased;
      gone.erase(same);
    } else {
      made.emplace(place.number, &place);
    }
  }
  double rows_gone = 0, erased = 0, rows_made = 0, passed_on = 0;
  for (const auto& [number, place] : made) rows_made += static_cast<double>(place->rows);
  for (const auto& [number, place] : gone) {
    rows_gone += static_cast<double>(place->rows);
    if (place->erased <= 0) continue;
    erased += place->erased;
    const auto range = overlapped(place->first, place->last, true);
    double there = 0;
    const auto among = [&](const auto& each) {
      for (std::size_t i = range.first; i < range.second; ++i) {
        if (made.contains(bottom_[i].number)) each(bottom_[i]);
      }
    };
    among([&](const Place& to) { there += static_cast<double>(to.rows); });
    if (there == 0) continue;
    passed_on += place->erased;
    among([&, share = place->erased](Place& to) { to.erased += share * static_cast<double>(to.rows) / there; });
  }
  const double left = std::max(erased - std::max(rows_gone - rows_made, 0.0), 0.0);
  if (passed_on <= left) return;
  for (const auto& [number, place] : made) place->erased *= left / passed_on;
}

void Live::estimate() {
  obsolete_ = 0;
  if (!known_) return;
  double held = 0, held_above = 0;
  for (const Place& place : bottom_) held += static_cast<double>(place.rows);
  for (const Place& place : upper_) held_above += static_cast<double>(place.rows);
  double left = std::max(held + held_above - taken_in_ - in_tables_.rows, 0.0);

  // Where rows were erased.
  double found = 0;
  for (Place& place : bottom_) found += place.obsolete = std::min(place.erased, static_cast<double>(place.rows));
  if (found > left) {
    for (Place& place : bottom_) place.obsolete *= left / found;
    found = left;
  }
  left -= found;

  // Where other tables lie over them: each of their rows may replace one.
  std::vector<double> over(bottom_.size() + 1);
  for (const Place& place : upper_) {
    const auto [begin, end] = overlapped(place.first, place.last, true);
    if (begin == end) continue;
    const double each = static_cast<double>(place.rows) / static_cast<double>(end - begin);
    over[begin] += each;
    over[end] -= each;
  }
  double sum = 0, may = 0;
  for (std::size_t i = 0; i < bottom_.size(); ++i) {
    sum += over[i];
    over[i] = std::clamp(sum, 0.0, static_cast<double>(bottom_[i].rows) - bottom_[i].obsolete);
    may += over[i];
  }
  const double part = may > 0 ? std::min(left / may, 1.0) : 0;
  for (std::size_t i = 0; i < bottom_.size(); ++i) bottom_[i].obsolete += part * over[i];
  left -= part * may;

  // Where tombstones are: the mount that wrote them knew of what, and this one does not.
  std::vector<bool> erased(bottom_.size());
  double there = 0;
  for (const Place& place : upper_) {
    if (!place.erases) continue;
    const auto [begin, end] = overlapped(place.first, place.last, true);
    std::fill(erased.begin() + static_cast<std::ptrdiff_t>(begin), erased.begin() + static_cast<std::ptrdiff_t>(end), true);
  }
  const auto rest = [&](std::size_t i) { return erased[i] ? static_cast<double>(bottom_[i].rows) - bottom_[i].obsolete : 0; };
  for (std::size_t i = 0; i < bottom_.size(); ++i) there += rest(i);
  const double share = there > 0 ? std::min(left / there, 1.0) : 0;
  for (std::size_t i = 0; i < bottom_.size(); ++i) bottom_[i].obsolete += share * rest(i);
  left -= share * there;

  // And else among each other.
  const double above = held_above > 0 ? std::min(left / held_above, 1.0) : 0;
  for (Place& place : upper_) place.obsolete = above * static_cast<double>(place.rows);

  double bytes = 0;
  for (const auto* level : {&bottom_, &upper_}) {
    for (const Place& place : *level) bytes += place.obsolete * bytes_per_row(place);
  }
  obsolete_ = static_cast<std::uint64_t>(bytes);
}

std::uint64_t Live::bytes() const {
  const double erased = now_.erased_bytes - in_tables_.erased_bytes;
  const double bytes = static_cast<double>(table_bytes_ - std::min(obsolete_, table_bytes_)) + new_rows() * new_row_bytes() + (bulk_rows_ - taken_in_) * kRowBytes - erased;
  return bytes > 0 ? static_cast<std::uint64_t>(bytes) : 0;
}

double Live::row_bytes() const {
  const double rows = in_tables_.rows + taken_in_;
  return rows > 0 ? static_cast<double>(table_bytes_ - std::min(obsolete_, table_bytes_)) / rows : 0;
}

std::optional<std::pair<std::string, std::string>> Live::worst() const {
  if (upper_.empty()) return std::nullopt;
  std::vector<bool> covered(bottom_.size());
  for (const Place& place : upper_) {
    const auto [begin, end] = overlapped(place.first, place.last, true);
    std::fill(covered.begin() + static_cast<std::ptrdiff_t>(begin), covered.begin() + static_cast<std::ptrdiff_t>(end), true);
  }
  const Place* worst = nullptr;
  const auto share = [](const Place& place) { return place.rows > 0 ? place.obsolete / static_cast<double>(place.rows) : 0; };
  for (std::size_t i = 0; i < bottom_.size(); ++i) {
    if (covered[i] && (worst == nullptr || share(bottom_[i]) > share(*worst))) worst = &bottom_[i];
  }
  if (worst == nullptr) worst = &upper_.front();  // what is obsolete is among these
  return std::pair(worst->first, worst->last);
}

}  // namespace lsmfs::kv
