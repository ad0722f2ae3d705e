#include "fuse/serving/listings.h"

#include <sys/stat.h>

#include <utility>

namespace lsmfs {

// The one that came last has the place of those whose numbers share it.
Listings::Caller& Listings::caller_of(std::uint64_t number) {
  Caller& caller = callers_[number % kCallers];
  if (caller.number != number) caller = Caller{.number = number};
  return caller;
}

void Listings::note_bare(Ino dir, std::uint64_t caller, std::vector<Ino>& old) {
  waits_ = true;
  if (!bare_.insert_or_assign(dir, caller).second) return;
  bare_order_.push_back(dir);
  if (bare_.size() <= kBareMost) return;
  for (std::size_t left = kBareMost / 2; left > 0; --left) {
    old.push_back(bare_order_.front());
    bare_.erase(bare_order_.front());
    bare_order_.pop_front();
  }
}

Listings::Plan Listings::plan(std::uint64_t number, Ino dir, bool begins) {
  Plan plan;
  if (number == 0) return plan;
  const MutexLock lock(mutex_);
  Caller& caller = caller_of(number);
  const bool another = caller.dir != dir && caller.dir != Ino{};  // than it listed before
  if (begins && another && std::exchange(caller.probe, Ino{}) != Ino{}) caller.wants = Caller::Wants::names;
  if (caller.wants == Caller::Wants::names && (begins || bare_.contains(dir))) {
    plan.attrs = AttrsOf::directories;
    note_bare(dir, number, plan.old);
  }
  // Who lists a single directory is not asked: what it costs would not come back.
  plan.probes = begins && another && caller.wants == Caller::Wants::unknown;
  if (begins) caller.dir = dir;
  return plan;
}

void Listings::withheld(std::uint64_t number, Ino dir, Ino file) {
  const MutexLock lock(mutex_);
  Caller& caller = caller_of(number);
  if (caller.dir != dir) return;
  caller.probe = file;
  waits_ = true;
}

std::vector<Ino> Listings::looked_up(Ino dir, const Attr& found) {
  std::vector<Ino> old;
  if (!waits_ || S_ISDIR(found.mode)) return old;
  const MutexLock lock(mutex_);
  for (Caller& caller : callers_) {
    if (caller.probe != found.ino || caller.dir != dir) continue;
    caller.probe = Ino{};
    caller.wants = Caller::Wants::attributes;
  }
  const auto bare = bare_.find(dir);
  if (bare == bare_.end()) return old;
  Caller& lister = callers_[bare->second % kCallers];
  if (lister.number == bare->second) lister.wants = Caller::Wants::attributes;
  if (++looked_up_ < kLookedUpMost) return old;
  looked_up_ = 0;
  old.assign(bare_order_.begin(), bare_order_.end());
  bare_.clear();
  bare_order_.clear();
  return old;
}

}  // namespace lsmfs
