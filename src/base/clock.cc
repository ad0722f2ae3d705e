#include "lsmfs/clock.h"

#include <thread>

namespace lsmfs {
namespace {

class SystemClock final : public Clock {
 public:
  Time now() override { return std::chrono::steady_clock::now(); }
  std::chrono::system_clock::time_point wall() override { return std::chrono::system_clock::now(); }
  void wait(std::unique_lock<std::mutex>& lock, std::condition_variable& changed, Time due) override {
    if (due == kNever) return changed.wait(lock);
    changed.wait_until(lock, due);
  }
  void sleep_until(Time due) override { std::this_thread::sleep_until(due); }
};

}  // namespace

Clock& system_clock() {
  static SystemClock clock;
  return clock;
}

}  // namespace lsmfs
