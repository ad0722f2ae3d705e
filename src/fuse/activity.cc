#include "fuse/activity.h"

#include <utility>

#include "lsmfs/base.h"

namespace lsmfs {
namespace {

// Long enough to bridge the pauses of a program that works on files, short enough to cost nothing after.
constexpr auto kLinger = std::chrono::milliseconds(20);

}  // namespace

Activity::Activity(const char* name, std::chrono::milliseconds every, Work work)
    : every_(every), work_(std::move(work)), thread_(named_thread(name, [this] { run(); })) {}

Activity::~Activity() {
  stopping_ = true;
  wake();
  thread_.join();
}

void Activity::wake() {
  asleep_ = false;
  asleep_.notify_one();
}

void Activity::run() {
  using Clock = std::chrono::steady_clock;
  while (!stopping_) {
    asleep_ = true;
    if (stopping_) return;  // the destructor's wake() may have come before the store above
    asleep_.wait(true);
    if (stopping_) return;
    heard_ = false;
    work_.begin();
    for (auto quiet_since = Clock::now(); !stopping_ && Clock::now() - quiet_since < kLinger;) {
      work_.look();
      std::this_thread::sleep_for(every_);
      if (heard_.exchange(false)) quiet_since = Clock::now();
    }
    work_.end();
  }
}

}  // namespace lsmfs
