// The ioctl by which root changes the settings of a mount, on any file or directory of the mount.
#pragma once

#include <sys/ioctl.h>

#include <cstdint>
#include <optional>

#include "lsmfs/fuse.h"

namespace lsmfs {

struct ReconfigureRequest {
  static constexpr std::int32_t kUnchanged = -1;
  std::int32_t read_only = kUnchanged;         // 0, 1
  std::int32_t atime = kUnchanged;             // AtimePolicy
  std::int32_t directory_atime = kUnchanged;   // 0, 1
  std::int32_t sync_interval_ms = kUnchanged;
  std::int32_t durable_names = kUnchanged;     // 0, 1
};
static_assert(sizeof(ReconfigureRequest) == 20);

inline constexpr unsigned long kReconfigureIoctl = _IOW('L', 0xf6, ReconfigureRequest);

ReconfigureRequest to_request(const MountSettings& settings);
std::optional<MountSettings> to_settings(const ReconfigureRequest& request);  // nullopt: a value is not valid

}  // namespace lsmfs
