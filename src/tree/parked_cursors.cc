#include "tree/parked_cursors.h"

#include <algorithm>
#include <utility>

namespace lsmfs {

// One without a cursor, or that which was used the longest time ago.
ParkedCursors::Place& ParkedCursors::replaceable() {
  return *std::ranges::min_element(places_, {}, [](const Place& place) { return place.cursor ? place.used : Clock::Time(); });
}

ParkedCursors::Place ParkedCursors::take(std::uint64_t epoch, std::string_view target) {
  const Clock::Time now = clock_.now();
  Place taken;
  {
    const MutexLock lock(mutex_);
    if (epoch_ == epoch) {
      for (Place& place : places_) {
        if (place.cursor && now - place.made >= kAge) place = {};
      }
      const auto here = std::ranges::find_if(places_, [&](const Place& place) { return place.is_at(target); });
      taken = std::exchange(here != places_.end() ? *here : replaceable(), Place{});
    }
  }
  if (!taken.cursor) taken.made = now;
  return taken;
}

void ParkedCursors::park(Place place, std::uint64_t epoch) {
  Place replaced;
  const MutexLock lock(mutex_);
  if (closed_ > 0 || epoch < epoch_) return;
  if (epoch > epoch_) places_ = {};
  epoch_ = epoch;
  place.used = clock_.now();
  replaced = std::exchange(replaceable(), std::move(place));
}

void ParkedCursors::clear() {
  const MutexLock lock(mutex_);
  places_ = {};
}

void ParkedCursors::clear_idle() {
  const Clock::Time now = clock_.now();
  const MutexLock lock(mutex_);
  for (Place& place : places_) {
    if (place.cursor && now - place.used > kIdle) place = {};
  }
}

ParkedCursors::Closed::Closed(ParkedCursors& parked) : parked_(parked) {
  const MutexLock lock(parked_.mutex_);
  ++parked_.closed_;
  parked_.places_ = {};
}

ParkedCursors::Closed::~Closed() {
  const MutexLock lock(parked_.mutex_);
  --parked_.closed_;
}

}  // namespace lsmfs
