#include "fuse/stop_signals.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace lsmfs {
namespace {

std::atomic<int> signal_descriptor{-1};

void on_signal(int) {
  const int saved = errno;
  const std::uint64_t one = 1;
  if (write(signal_descriptor, &one, sizeof one) < 0) {
    // it is readable already
  }
  errno = saved;
}

}  // namespace

StopSignals::StopSignals() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  signal_descriptor = descriptor_;
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &old_[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
  signal_descriptor = -1;
  close(descriptor_);
}

Interruptible::Interruptible() : thread_(pthread_self()) {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  sigaction(SIGUSR2, &action, &old_);
}

Interruptible::~Interruptible() {
  // Ignoring a signal drops one that is still pending.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGUSR2, &ignore, nullptr);
  sigaction(SIGUSR2, &old_, nullptr);
}

void Interruptible::interrupt() { pthread_kill(thread_, SIGUSR2); }

}  // namespace lsmfs
