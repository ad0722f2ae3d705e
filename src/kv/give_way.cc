#include "kv/give_way.h"

namespace lsmfs::kv {

void GiveWay::wait() const {
  constexpr auto kSlice = std::chrono::milliseconds(5);
  for (const Clock::Time last = clock_.now() + kPatience; clock_.now() < last && !quiet() && !hurried();) clock_.sleep(kSlice);
}

}  // namespace lsmfs::kv
