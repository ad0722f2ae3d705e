// What a device or image holds, by its first and last bytes: an lsmfs, another file system, a partition table, or nothing.
// What it is not: who uses it; see device_use.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lsmfs/base.h"
#include "lsmfs/device.h"

namespace lsmfs::cli {

// "ext4 (label data)", "an lsmfs (label x)", "a partition table (gpt)": what mkfs would destroy;
// nullopt: nothing known.
Result<std::optional<std::string>> signature(Device& device);

// EMEDIUMTYPE when there is no lsmfs on it. The context says what there is instead: "is not lsmfs: it holds ext4 (label data); ...".
// Done with all rights, before an lsmfs is looked into. To look at anything else the process gives up its rights first, and is to end
// after that.
Result<void> refuse_others(Device& device, const std::function<void(std::string_view)>& notice);

}  // namespace lsmfs::cli
