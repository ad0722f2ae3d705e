// SIGINT, SIGTERM, SIGHUP and SIGQUIT as something to ask for, so that what was set up is taken down before they take effect.
//
// They are blocked in this thread, and in those that it starts, from construction to destruction; what the process ignored
// before it goes on to ignore. SIGCHLD is blocked as well, so that one can wait for both.
#pragma once

#include <signal.h>
#include <sys/types.h>

namespace lsmfs::cli {

class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  bool pending();  // cheap
  int signal() const { return signal_; }  // 0: none so far
  // Returns when a process has ended; passes on the signals to it that arrive meanwhile. What waitpid(2) says.
  int wait_for(pid_t child);
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t signals_, before_;
  int signal_ = 0;
};

// Ends this process by the signal, as its sender wanted.
[[noreturn]] void end_by(int signal);

}  // namespace lsmfs::cli
