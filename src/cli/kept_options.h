// The mount options that a volume keeps (`lsmfs tune -o`), for whoever is about to mount it.
#pragma once

#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {

// As its superblock has them. A confined child reads it: who mounts has rights that nobody may have who decodes what a stranger wrote.
// Must hold: this process has no other thread. Errors: EIO (the child found none), those of fork(2) and pipe(2).
Result<std::string> kept_options(const std::string& path);

}  // namespace lsmfs::cli
