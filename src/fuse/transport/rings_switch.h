// The kernel's switch for FUSE over io_uring: a parameter of its module, off when that is loaded, and one for all mounts of the
// machine. Whoever mounts later goes by it. Root may turn it.
//
// What it is not: it makes no rings, and turns nothing off.
#pragma once

#include <string>
#include <utility>

#include "lsmfs/base.h"

namespace lsmfs {

class RingsSwitch {
 public:
  explicit RingsSwitch(std::string path = "/sys/module/fuse/parameters/enable_uring") : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  // Errors: ENOTSUP (there is none).
  Result<bool> is_on() const;
  // Errors: EACCES (not root), EROFS (as in many containers), ...
  Result<void> turn_on() const;

 private:
  std::string path_;
};

}  // namespace lsmfs
