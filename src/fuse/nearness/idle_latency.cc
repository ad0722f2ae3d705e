#include "fuse/nearness/idle_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

namespace lsmfs {
namespace {

constexpr auto kLookForRequests = std::chrono::milliseconds(20);  // there is nothing to look at but whether requests still come

// In microseconds: what a waking CPU may take at most.
constexpr std::int32_t kNone = 0, kAny = INT32_MAX;

bool demand(int fd, std::int32_t latency) { return pwrite(fd, &latency, sizeof latency, 0) == sizeof latency; }

}  // namespace

Result<Fd> LatencyHold::open_device(Choice mode, const std::string& path) {
  if (mode == Choice::off) return Fd();
  Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const bool usable = fd && demand(fd.get(), kAny);
  if (!usable && mode == Choice::on) return make_error(errno, path);
  return usable ? std::move(fd) : Fd();
}

LatencyHold::LatencyHold(Fd device, Clock& clock) : device_(std::move(device)) {
  if (!device_) return;
  activity_.emplace(clock, "lsmfs-latency", kLookForRequests,
                    Activity::Work{.begin = [this] { demand(device_.get(), kNone); }, .end = [this] { demand(device_.get(), kAny); }});
}

}  // namespace lsmfs
