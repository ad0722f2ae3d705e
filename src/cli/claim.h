// A volume's claim: on one host no two mounts are of the same UUID, whatever devices or images they are on. Two of those may be the
// same bytes in a way that nobody can find out, and a mount of both would destroy them.
// What it is not: for other hosts, nor between different users, who cannot share a device either.
#pragma once

#include "lsmfs/base.h"
#include "lsmfs/clock.h"

namespace lsmfs::cli {

class Claims {
 public:
  // To be called while files may be opened to write. A user without a folder for such things has no claims, and none to fear.
  static Claims open();
  // From now on until this process and all that it forked have ended, or this one releases it. Errors: EBUSY (somebody else has it).
  // Who is just ending is waited for.
  Result<void> claim(const Uuid& uuid, Clock& clock = system_clock());
  void release() { file_.reset(); }

 private:
  Fd file_;
};

}  // namespace lsmfs::cli
