// Giving up what a process that has its device open does not need any more, before it decodes what is on it.
#pragma once

#include <functional>
#include <string_view>

namespace lsmfs::cli {

// The first part of confine(): all but the system calls, which are free still. For who looks by a library and ends then.
void give_up_rights(const std::function<void(std::string_view)>& notice);

// For good, in this thread and all that it starts: no capabilities, none to be had by executing a program, no more files
// than everybody may read, and no system calls but those of system_calls.cc. Must hold: no other thread. What the kernel
// does not let it give up is told and kept.
void confine(const std::function<void(std::string_view)>& notice);

}  // namespace lsmfs::cli
