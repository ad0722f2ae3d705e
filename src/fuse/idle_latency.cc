#include "fuse/idle_latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

namespace lsmfs {
namespace {

// Long enough to bridge the pauses of a program that works on files, short enough to cost nothing after.
constexpr auto kLinger = std::chrono::milliseconds(20);

Result<int> open_at_zero(const std::string& device) {
  const int fd = open(device.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return make_error(errno, device);
  const std::int32_t zero_us = 0;
  if (write(fd, &zero_us, sizeof zero_us) != sizeof zero_us) {
    const int code = errno;
    close(fd);
    return make_error(code, device);
  }
  return fd;
}

}  // namespace

Result<std::unique_ptr<LatencyHold>> LatencyHold::start(IdleLatency mode, const std::string& device) {
  if (mode != IdleLatency::off) {
    auto fd = open_at_zero(device);
    if (fd) {
      close(*fd);
      return std::unique_ptr<LatencyHold>(new LatencyHold(device));
    }
    if (mode == IdleLatency::on) return fd.error();
  }
  return std::unique_ptr<LatencyHold>(new LatencyHold({}));
}

LatencyHold::LatencyHold(std::string device) : device_(std::move(device)) {
  if (!device_.empty()) helper_ = std::thread([this] { run(); });
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
    auto fd = open_at_zero(device_);
    for (auto seen = beat_.load() - 1; !stopping_ && seen != beat_.load();) {
      seen = beat_.load();
      std::this_thread::sleep_for(kLinger);
    }
    if (fd) close(*fd);
  }
}

}  // namespace lsmfs
