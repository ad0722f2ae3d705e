// Going to the background: the parent waits for the child's word and exits with it.
#pragma once

#include <functional>
#include <string_view>

#include "cli/messages.h"

namespace lsmfs::cli {

// How the one who does the work talks to the one who started it.
class Starter {
 public:
  virtual ~Starter() = default;
  virtual void notice(std::string_view line) = 0;    // for people, on stderr: what is wrong with the device
  virtual void failed(const Problem& problem) = 0;   // the end: one line and the exit code
  virtual void ready() = 0;                          // the end: success
};

// Runs `work` in this process, or with `background` in a child of it, with stdio on /dev/null and, when it has
// said ready, in a session of its own. Gives the exit code for the shell, when `work` said ready (background) or
// has returned (foreground). Must hold: this process has no other thread.
int run_and_report(bool background, const std::function<int(Starter&)>& work);

}  // namespace lsmfs::cli
