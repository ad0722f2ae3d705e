#include "tree/upkeep.h"

#include <algorithm>

namespace lsmfs {

void Upkeep::changed(Time now) {
  if (!dirty_since_) dirty_since_ = now;
}

void Upkeep::sync_began() {
  dirty_since_.reset();
  unsynced_ = 0;
}

void Upkeep::synced(Time now) {
  if (!unnoted_since_) unnoted_since_ = now;
}

void Upkeep::displaced(Time now) { relocate_at_ = now + kRelocationDelay; }

void Upkeep::relocated(Time began, Time ended, bool more) {
  relocate_at_.reset();
  if (more) relocate_at_ = ended + kRelocationPause * (ended - began);
}

void Upkeep::removed_tree(Time now) {
  if (!sweep_at_) sweep_at_ = now + kSweepDelay;
}

void Upkeep::swept(Time began, Time ended, bool more) {
  sweep_at_.reset();
  if (more) sweep_at_ = ended + kSweepPause * (ended - began);
}

Upkeep::Due Upkeep::take(Time now, Duration interval) {
  Due due;
  if (interval == Duration::zero()) return due;
  due.sync = dirty_since_ && now >= *dirty_since_ + sync_age(interval);
  due.store_sync = has_much() && !due.sync;
  if (has_much()) unsynced_ = 0;
  const bool unnoted = unnoted_since_ && now >= *unnoted_since_ + interval;
  // What is noted after another sync says the same of those before it.
  due.note = unnoted && !due.sync;
  if (unnoted) unnoted_since_.reset();
  due.relocation = relocate_at_ && now >= *relocate_at_;
  return due;
}

Upkeep::Time Upkeep::next(Duration interval) const {
  if (interval == Duration::zero()) return Clock::kNever;
  if (has_much()) return {};
  Time first = relocate_at_.value_or(Clock::kNever);
  if (dirty_since_) first = std::min(first, *dirty_since_ + sync_age(interval));
  if (unnoted_since_) first = std::min(first, *unnoted_since_ + interval);
  return first;
}

}  // namespace lsmfs
