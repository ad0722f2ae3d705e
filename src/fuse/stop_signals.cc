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

StopSignals::StopSignals() {
  // One for the process, never closed: a handler may still be running in another thread when the
  // object goes, and must not write into somebody else's file.
  if (signal_descriptor < 0) signal_descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  descriptor_ = signal_descriptor;
  std::uint64_t old_signals = 0;
  if (read(descriptor_, &old_signals, sizeof old_signals) < 0) {
    // there were none
  }
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &old_[i]);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_[i], nullptr);
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
