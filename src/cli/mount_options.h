// The words after -o of `lsmfs mount`, and those that mount(8) hands on.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lsmfs/fuse.h"
#include "lsmfs/kv.h"
#include "lsmfs/tree.h"

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
  std::optional<Choice> latency, io_uring;
  std::optional<bool> writeback, acl;
  std::vector<std::string> kernel;  // those of MountOptions::kernel_options that are not about access times

  // For MountOptions::kernel_options, where access times are as said now.
  std::vector<std::string> kernel_options(AtimePolicy atime_now, bool directory_atime_now) const;
};

// `lists`: each with commas. Of options that contradict each other the last counts. `sloppy`: what is
// unknown is passed over. The error's context is a whole message.
Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists, bool sloppy = false);

}  // namespace lsmfs::cli
