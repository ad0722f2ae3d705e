#include "crash/moments.h"

#include <fmt/format.h>

#include <sstream>

namespace lsmfs::test {

std::string difference(const std::string& found, const std::string& expected) {
  std::istringstream left(found), right(expected);
  std::string got, wanted;
  for (;;) {
    const bool more_left = static_cast<bool>(std::getline(left, got)), more_right = static_cast<bool>(std::getline(right, wanted));
    if (!more_left && !more_right) return "nothing differs";
    if (!more_left) got = "(no more)";
    if (!more_right) wanted = "(no more)";
    if (got != wanted) return fmt::format("\n  found    {}\n  expected {}", got, wanted);
  }
}

std::string Moments::judge(const std::string& dump, std::size_t events) const {
  std::size_t first = 0, end = 0;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    if (moments_[i].durable_at <= events) first = i;
    // One that changed nothing may be durable without a request of its own.
    if (i == 0 || moments_[i].began < events || moments_[i].durable_at <= events) end = i + 1;
  }
  for (std::size_t i = first; i < end; ++i) {
    if (moments_[i].dump == dump) return "";
  }
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    if (moments_[i].dump != dump) continue;
    return i < first ? fmt::format("lost what was synced: it is as after operation {}, and {} was synced", i, first)
                     : fmt::format("is as after operation {}, before that began", i);
  }
  return fmt::format("was never like this; from operation {}, of {} to {}: {}", end - 1, first, end - 1, difference(dump, moments_[end - 1].dump));
}

}  // namespace lsmfs::test
