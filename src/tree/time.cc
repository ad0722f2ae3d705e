#include <chrono>

#include "lsmfs/clock.h"
#include "lsmfs/tree.h"

namespace lsmfs {

Time Time::now(Clock& clock) {
  const auto since_epoch = clock.wall().time_since_epoch();
  const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return {whole.count(), static_cast<std::uint32_t>((since_epoch - whole) / std::chrono::nanoseconds(1))};
}

}  // namespace lsmfs
