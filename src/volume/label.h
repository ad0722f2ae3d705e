// A volume's label while it is open.
//
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/mutex.h"
#include "volume/shared.h"

namespace lsmfs {

class Label {
 public:
  explicit Label(const Shared& shared) : text_(shared.superblock.info.label) {}

  std::string text() const;
  // Durable when it returns; after a crash before that it is the old or the new one. Errors: EINVAL, EROFS, EIO.
  Result<void> set(Shared& shared, std::string_view text);
  // One line for each copy of the superblock that is not sound on the device.
  std::vector<std::string> damaged_superblocks(const Shared& shared);

 private:
  Mutex writing_ LSMFS_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  std::string text_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs
