// How fast something may go on.
#pragma once

#include <algorithm>
#include <chrono>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {

// How much too early it is for so many bytes, at `rate` of them a second since the beginning; not above zero: it is not.
// A rate of 0 is no limit. At most a year, so that it can be counted.
inline Clock::Duration early_by(ByteCount bytes, Clock::Duration elapsed, ByteCount rate) {
  using Seconds = std::chrono::duration<double>;
  constexpr Seconds kLongest = std::chrono::hours(24 * 365);
  if (rate.v == 0) return Clock::Duration::zero();
  const Seconds takes(static_cast<double>(bytes.v) / static_cast<double>(rate.v));
  return std::chrono::duration_cast<Clock::Duration>(std::min(takes - Seconds(elapsed), kLongest));
}

}  // namespace lsmfs::cli
