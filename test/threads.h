// Whether the other threads of this process have something to do: for who gives them time, however much they need of it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lsmfs::test {

// All others sleep: for each other, for a time, or for this thread. Who could run but has no processor does not sleep.
inline bool all_other_threads_sleep() {
  const std::string self = std::to_string(::gettid());
  std::error_code gone;  // a thread may end meanwhile
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    if (task.path().filename() == self) continue;
    std::string stat;
    if (!std::getline(std::ifstream(task.path() / "stat"), stat)) continue;
    const std::size_t name_ends = stat.rfind(')');  // the state follows, see proc(5)
    if (name_ends == stat.npos || stat.compare(name_ends, 3, ") S") != 0) return false;
  }
  return true;
}

}  // namespace lsmfs::test
