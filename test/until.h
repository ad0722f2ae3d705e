// For what a kernel, another program or a library's thread does in its own time: a test waits until it is so, however long that
// takes. It is the one place in which tests sleep. What runs by lsmfs's own time is stepped instead (see clock.h).
#pragma once

#include <chrono>
#include <thread>

namespace lsmfs::test {

// Looks again and again until condition() holds. False: it does not within two minutes, so something is wrong.
template <class Condition>
bool until(Condition condition) {
  constexpr auto kPatience = std::chrono::minutes(2);
  const auto last = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > last) return condition();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace lsmfs::test
