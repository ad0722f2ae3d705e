// Signals as something to poll for: SIGINT, SIGTERM and SIGXCPU, which say stop, and SIGHUP.
//
// Handlers, not a blocked mask: other layers' threads exist already and would not have it blocked.
// At most one object at a time. Threads: made and destroyed by one thread.
#pragma once

#include <csignal>
#include <array>

#include "lsmfs/base.h"

namespace lsmfs {

class Signals {
 public:
  Signals();
  ~Signals();  // the handlers become what they were
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  // Readable (eventfds) once one of the signals has come.
  int stop() const { return stop_; }
  int hangup() const { return hangup_; }

 private:
  // The limit of processor time sends SIGXCPU, and a while later SIGKILL.
  static constexpr std::array kSignals{SIGINT, SIGTERM, SIGXCPU, SIGHUP};
  int stop_ = -1, hangup_ = -1;
  std::array<struct sigaction, kSignals.size()> old_{};
};

// Lets another thread interrupt the system call that the maker of this object is blocked in, by
// SIGUSR2. After the object is gone, nothing is interrupted any more.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  // From any thread, while the object exists. A call that begins just after is not interrupted.
  void interrupt();

 private:
  pthread_t thread_;
  struct sigaction old_ {};
};

}  // namespace lsmfs
