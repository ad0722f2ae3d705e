// The words after -o of `lsmfs mount`, and those that mount(8) hands on.
//
// One table, mount_options(), has all that there is to say of an option: how it is read, its help, where its value goes, whether a
// remount can change it, and its name among the facts of `lsmfs info`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cli/opened.h"
#include "cli/sources.h"
#include "lsmfs/control.h"
#include "lsmfs/fuse.h"

namespace lsmfs::cli {

// What was not said is not set: a remount leaves it as it is, a mount takes the default.
struct ParsedOptions {
  bool remount = false;
  bool nofail = false;  // a device that is not there is no error
  bool read_only = false;
  bool synchronous = false, dirsync = false;
  bool durable_names() const { return synchronous || dirsync; }
  std::optional<AtimePolicy> atime;
  std::optional<bool> directory_atime;
  std::optional<std::uint32_t> sync_interval_ms;
  // These hold for as long as it is mounted.
  std::optional<ByteCount> cache;
  std::optional<std::chrono::seconds> timeout;
  std::optional<Choice> latency, io_uring;
  std::optional<bool> writeback, acl, xattr, user_rm;
  std::optional<std::string> snapshot;  // the name of the one to show, and nothing else; then it is read_only
  std::vector<std::string> kernel;  // those of MountOptions::kernel_options that are not about access times

  // For MountOptions::kernel_options, where access times are as said now.
  std::vector<std::string> kernel_options(AtimePolicy atime_now, bool directory_atime_now) const;
};

// What goes to the layers.
struct LayerOptions {
  MountOptions mount;
  OpenOptions open;
  std::chrono::seconds timeout = Away().patience;  // of a server's device
};

// What an option is set to, as `lsmfs info --json` has it.
struct Setting {
  std::string name;
  std::variant<bool, std::uint64_t, std::string> value;
  bool operator==(const Setting&) const = default;
};

struct MountOption {
  std::string_view words;     // as people write them: "acl, noacl", "cache=SIZE"
  std::string_view fallback;  // what holds if nothing is said; "": nothing worth saying
  std::string_view help;
  // Reads a word of this option; `value` is what follows its "=". The error's context is why not. None: parse_mount_options() does.
  Result<void> (*read)(ParsedOptions& parsed, std::string_view word, std::string_view value);
  void (*put)(const ParsedOptions& parsed, LayerOptions& layers);
  // By a remount. None: it lasts as long as the mount. Then there is a fact of it, with what is said or used.
  void (*change)(const ParsedOptions& parsed, MountSettings& settings) = nullptr;
  std::string_view fact = {};
  std::optional<decltype(Setting::value)> (*said)(const ParsedOptions& parsed) = nullptr;
  decltype(Setting::value) (*used)(const LayerOptions& layers) = nullptr;
};
std::span<const MountOption> mount_options();
// A line or two for each.
std::string mount_options_help();

LayerOptions layer_options(const ParsedOptions& parsed);
MountSettings changes(const ParsedOptions& parsed);
// Of all options that no remount can change.
std::vector<Setting> lasting(const LayerOptions& layers);
// The first one of those that was said, and differs from what is used; nullopt: none does.
std::optional<std::string> first_change(const ParsedOptions& parsed, const std::vector<Setting>& used);

// `lists`: each with commas. Of options that contradict each other the last counts. `sloppy`: what is
// unknown is passed over. The error's context is a whole message.
Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists, bool sloppy = false);
// Those that a volume may keep, for whoever mounts it: none that gives a stranger's volume more than it would have, or changes the
// machine. The same error.
Result<void> check_kept_options(const std::string& list);

}  // namespace lsmfs::cli
