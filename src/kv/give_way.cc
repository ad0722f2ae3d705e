#include "kv/give_way.h"

#include <thread>

namespace lsmfs::kv {

void GiveWay::wait() const {
  constexpr auto kSlice = std::chrono::milliseconds(5);
  for (auto waited = kSlice; waited < kPatience && !quiet() && !hurried(); waited += kSlice) {
    std::this_thread::sleep_for(kSlice);
  }
}

}  // namespace lsmfs::kv
