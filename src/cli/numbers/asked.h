// Numbers as the commands get them: from the daemon of a mount, with what is known of that.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "cli/messages.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {

// A mount that can be asked for its numbers.
class Asked {
 public:
  // `given`: any file or directory in it, as it was typed.
  explicit Asked(const std::string& given);

  // Before all else. Nothing: it is one.
  std::optional<Problem> problem();
  Result<MountStats> stats() const { return stats_of_mount(path_); }
  std::string explain(const Error& error) const;
  const std::string& mount_point() const { return mount_point_; }
  // The programs of the numbers, by the names of those threads now; those that have ended since keep the name that they were
  // seen with. "(ended)": they never were.
  std::map<std::string, std::uint64_t> programs(const RequestStats& requests);

 private:
  const std::string path_;
  std::string mount_point_;
  bool same_numbers_ = false;  // processes have the same numbers for the daemon and for this one
  std::map<std::uint32_t, std::string> names_;
};

}  // namespace lsmfs::cli
