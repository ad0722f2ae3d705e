// The words after -o of `lsmfs mount`.
#pragma once

#include <string>
#include <vector>

#include "lsmfs/fuse.h"
#include "lsmfs/kv.h"
#include "lsmfs/tree.h"

namespace lsmfs::cli {

struct ParsedOptions {
  bool read_only = false;
  bool writeback = false;
  bool acl = true;
  AtimePolicy atime = AtimePolicy::relatime;
  ByteCount cache = StoreOptions{}.cache;
  std::uint32_t sync_interval_ms = TreeOptions{}.sync_interval_ms;
  IdleLatency latency = IdleLatency::automatic;
  std::vector<std::string> kernel;  // for MountOptions::kernel_options
};

// `lists`: each with commas. Of options that contradict each other the last counts. The error's
// context is a whole message.
Result<ParsedOptions> parse_mount_options(const std::vector<std::string>& lists);

}  // namespace lsmfs::cli
