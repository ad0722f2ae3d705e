#include "fuse/nearness/activity.h"

#include <chrono>
#include <utility>

#include "lsmfs/base.h"

namespace lsmfs {
namespace {

// Long enough to bridge the pauses of a program that works on files, short enough to cost nothing after.
constexpr auto kLinger = std::chrono::milliseconds(20);

}  // namespace

Activity::Activity(Clock& clock, const char* name, Clock::Duration every, Work work)
    : clock_(clock), every_(every), work_(std::move(work)), thread_(named_thread(name, [this] { run(); })) {}

Activity::~Activity() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void Activity::wake() {
  {
    const MutexLock lock(mutex_);
    asleep_ = false;
  }
  changed_.notify_one();
}

bool Activity::sleep() {
  MutexLock lock(mutex_);
  asleep_ = !stopping_;
  clock_.wait(lock, changed_, Clock::kNever, [this] { return !asleep_; });
  return !stopping_;
}

bool Activity::pause() {
  MutexLock lock(mutex_);
  return !clock_.wait(lock, changed_, clock_.now() + every_, [this]() LSMFS_REQUIRES(mutex_) { return stopping_; });
}

void Activity::run() {
  while (sleep()) {
    heard_ = false;
    work_.begin();
    auto quiet_since = clock_.now();
    do {
      work_.look();
      if (!pause()) break;
      if (heard_.exchange(false)) quiet_since = clock_.now();
    } while (clock_.now() - quiet_since < kLinger);
    work_.end();
  }
}

}  // namespace lsmfs
