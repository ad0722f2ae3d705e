#include "kv/pace.h"

#include <algorithm>

#include "kv/batch.h"

namespace lsmfs::kv {
namespace {

using Ns = std::chrono::duration<double, std::nano>;

}  // namespace

void Pace::measured(Family family, const Backlog& backlog) {
  Side& side = sides_[family_number(family)];
  side.bytes.store(backlog.bytes, std::memory_order_relaxed);
  side.waiting.store(backlog.waiting, std::memory_order_relaxed);
  side.full.store(std::max<std::uint64_t>(backlog.full, 1), std::memory_order_relaxed);
}

void Pace::flush_begins(Family family, Clock::Time now) { sides_[family_number(family)].began.store(now, std::memory_order_relaxed); }

void Pace::flush_ended(Family family, std::uint64_t bytes, Clock::Time now) {
  Side& side = sides_[family_number(family)];
  const Clock::Time began = side.began.exchange({}, std::memory_order_relaxed);
  // Of a small one most passes in syncs, and tells nothing of a large one.
  if (began == Clock::Time() || now <= began || bytes < side.full.load(std::memory_order_relaxed) / 4) return;
  const double speed = static_cast<double>(bytes) / Ns(now - began).count(), before = side.speed.load(std::memory_order_relaxed);
  side.speed.store(before == 0 ? speed : (speed + before) / 2, std::memory_order_relaxed);
}

void Pace::space(std::uint64_t spare, std::uint64_t total) {
  const bool tight = spare < total / kSpare;
  spare_ns_per_byte_.store(tight ? merge_ns_.load(std::memory_order_relaxed) / static_cast<double>(std::max<std::uint64_t>(spare, 1)) : 0,
                           std::memory_order_relaxed);
}

void Pace::merged(Clock::Duration took) {
  const double ns = Ns(took).count(), before = merge_ns_.load(std::memory_order_relaxed);
  merge_ns_.store(before == 0 ? ns : (3 * before + ns) / 4, std::memory_order_relaxed);
}

double Pace::ahead(const Side& side, Clock::Time now) const {
  const auto relaxed = std::memory_order_relaxed;
  const Clock::Time began = side.began.load(relaxed);
  const double taken = began == Clock::Time() ? 0 : side.speed.load(relaxed) * std::max(Ns(now - began).count(), 0.0);
  const double left = static_cast<double>(side.bytes.load(relaxed)) - std::min(taken, static_cast<double>(side.waiting.load(relaxed)));
  return std::max(left, 0.0) / static_cast<double>(side.full.load(relaxed));
}

double Pace::ns_per_byte(const Side& side, Clock::Time now) const {
  const double speed = side.speed.load(std::memory_order_relaxed), ahead = this->ahead(side, now);
  if (speed == 0 || ahead <= kFree) return 0;
  const double share = std::min((ahead - kFree) / (kTight - kFree), 1.0);
  return 1 / (speed * (kFast + (kSlow - kFast) * share));
}

Clock::Time Pace::due(std::uint64_t bytes, Clock::Time now) {
  const double ns_per_byte = std::max({this->ns_per_byte(sides_[0], now), this->ns_per_byte(sides_[1], now),
                                       spare_ns_per_byte_.load(std::memory_order_relaxed)});
  if (ns_per_byte == 0) return now;
  const auto takes = std::chrono::duration_cast<Clock::Duration>(std::min(Ns(ns_per_byte * static_cast<double>(bytes)), Ns(kLongest)));
  // Who has not written for a while has nothing saved: what comes now is what the flush meets.
  Clock::Time next = next_.load(std::memory_order_relaxed), mine;
  do mine = std::max(next, now);
  while (!next_.compare_exchange_weak(next, mine + takes, std::memory_order_relaxed));
  return mine;
}

}  // namespace lsmfs::kv
