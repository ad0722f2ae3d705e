#include "cli/stop.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace lsmfs::cli {

StopRequest::StopRequest() {
  sigemptyset(&signals_);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(&signals_, number);
  }
  // An ignored SIGCHLD would have nobody to wait for.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t blocked = signals_;
  sigaddset(&blocked, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &blocked, &before_);
}

StopRequest::~StopRequest() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

bool StopRequest::pending() {
  constexpr timespec kNow{};
  if (const int number = sigtimedwait(&signals_, nullptr, &kNow); number > 0) signal_ = number;
  return signal_ != 0;
}

int StopRequest::wait_for(pid_t child) {
  sigset_t both = signals_;
  sigaddset(&both, SIGCHLD);
  while (true) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return status;
    const int number = sigwaitinfo(&both, nullptr);
    if (number <= 0 || number == SIGCHLD) continue;
    signal_ = number;
    kill(child, number);
  }
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  raise(signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  _exit(128 + signal);
}

}  // namespace lsmfs::cli
