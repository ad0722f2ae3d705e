// The facts that `lsmfs info` prints, and that a daemon gives to whoever asks it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/mount_options.h"
#include "cli/opened.h"

namespace lsmfs::cli {

struct MountFacts {
  std::string mount_point;
  std::vector<Setting> options;         // those that hold for as long as it is mounted
  pid_t process = 0;                    // the daemon's
  std::uint64_t process_namespace = 0;  // in which it has that number
};
// `mount`: null when it is not mounted.
std::string facts_json(Opened& opened, const MountFacts* mount);
// MountFacts::options; nullopt: not the facts of a mount.
std::optional<std::vector<Setting>> lasting_in_facts(const std::string& json);
// The daemon, by the number that it has in this process's namespace; nullopt: it has none here, or it is not said.
std::optional<pid_t> daemon_in_facts(const std::string& json);
// What tells the namespace of process numbers that this process is in from others.
std::uint64_t process_namespace();
// The device or image that they are about; "": not said.
// How much of its device the volume has; 0: it is not said.
std::uint64_t device_bytes_in_facts(const std::string& text);
std::string device_in_facts(const std::string& json);
std::string mount_point_in_facts(const std::string& json);  // likewise

// The same for people. What is not in `json` is left out; text that is not JSON gives nullopt.
std::optional<std::string> facts_text(const std::string& json);

}  // namespace lsmfs::cli
