#include "fuse/mounting/signals.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace lsmfs {
namespace {

std::atomic<int> stop_descriptor{-1}, hangup_descriptor{-1};

void on_signal(int number) {
  const int saved = errno;
  const std::uint64_t one = 1;
  if (write(number == SIGHUP ? hangup_descriptor : stop_descriptor, &one, sizeof one) < 0) {
    // it is readable already
  }
  errno = saved;
}

// One for the process, never closed: a handler may still be running in another thread when the object goes, and must not write into
// somebody else's file.
int without_old_signals(std::atomic<int>& descriptor) {
  if (descriptor < 0) descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::uint64_t old_signals = 0;
  if (read(descriptor, &old_signals, sizeof old_signals) < 0) {
    // there were none
  }
  return descriptor;
}

}  // namespace

Signals::Signals() : stop_(without_old_signals(stop_descriptor)), hangup_(without_old_signals(hangup_descriptor)) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &old_[i]);
}

Signals::~Signals() {
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
