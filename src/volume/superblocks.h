// The superblock of an open volume: what it says now, and how both its copies change on the device.
//
// A copy may be torn while it is written; the other one is sound then. Readers take the first unless it is damaged, so a change
// happens at one moment: when the first has been written.
//
// Thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lsmfs/mutex.h"
#include "volume/superblock.h"

namespace lsmfs {

class Journal;

class Superblocks {
 public:
  explicit Superblocks(const SuperblockInfo& info) : now_(info) {}

  SuperblockInfo now() const;
  // Durable when it returns; after a crash before that it says the old or the new. Errors: EROFS, EIO.
  Result<void> change(Journal& journal, const std::function<void(SuperblockInfo&)>& change);
  // One line for each copy that is not sound on the device.
  std::vector<std::string> damaged(const Journal& journal);

 private:
  Mutex writing_ LSMFS_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  SuperblockInfo now_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs
