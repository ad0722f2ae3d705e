// Lets time pass for objects that have threads.
#pragma once

#include <gtest/gtest.h>

#include "clock.h"

namespace lsmfs::test {

// Those of a tree that follows no walk and is not opened read-only: lsmfs-upkeep, lsmfs-commit and two of lsmfs-prefetch.
inline constexpr std::size_t kTreeThreads = 4;

// Moves the clock on, perhaps by nothing, and returns when so many threads have done all that was due by then, and all that they
// had been asked for before, and wait again.
inline void pass(SteppedClock& clock, Clock::Duration time, std::size_t threads = kTreeThreads) {
  clock.advance(time);
  ASSERT_TRUE(clock.await_waiting(threads));
}

}  // namespace lsmfs::test
