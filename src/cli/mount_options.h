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
  std::vector<std::string> kernel;  // for MountOptions::kernel_options
};

// `lists`: each with commas. Of options that contradict each other the last counts, but of those about access times
// the one that counts for other file systems. `sloppy`: what is
// unknown is passed over. The error's context is a whole message.
Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists, bool sloppy = false);

}  // namespace lsmfs::cli
