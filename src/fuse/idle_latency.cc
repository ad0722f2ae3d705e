#include "fuse/idle_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

namespace lsmfs {
namespace {

// Long enough to bridge the pauses of a program that works on files, short enough to cost nothing after.
constexpr auto kLinger = std::chrono::milliseconds(20);

// In microseconds: what a waking CPU may take at most.
constexpr std::int32_t kNone = 0, kAny = INT32_MAX;

bool demand(int fd, std::int32_t latency) { return pwrite(fd, &latency, sizeof latency, 0) == sizeof latency; }

}  // namespace

Result<Fd> LatencyHold::open_device(IdleLatency mode, const std::string& path) {
  if (mode == IdleLatency::off) return Fd();
  Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool usable = fd && demand(fd.get(), kAny);
  if (!usable && mode == IdleLatency::on) return make_error(errno, path);
  return usable ? std::move(fd) : Fd();
}

LatencyHold::LatencyHold(Fd device) : device_(std::move(device)) {
  if (device_) helper_ = std::thread([this] { run(); });
}

LatencyHold::~LatencyHold() {
  stopping_ = true;
  wake();
  if (helper_.joinable()) helper_.join();
}

void LatencyHold::wake() {
  asleep_ = false;
  asleep_.notify_one();
}

void LatencyHold::run() {
  while (!stopping_) {
    asleep_ = true;
    if (stopping_) return;  // the destructor's wake() may have come before the store above
    asleep_.wait(true);
    if (stopping_) return;
    demand(device_.get(), kNone);
    for (auto seen = beat_.load() - 1; !stopping_ && seen != beat_.load();) {
      seen = beat_.load();
      std::this_thread::sleep_for(kLinger);
    }
    demand(device_.get(), kAny);
  }
}

}  // namespace lsmfs
