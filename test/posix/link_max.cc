// Preloaded into pjdfstest, it tells what pathconf(_PC_LINK_MAX) is on lsmfs. The C library knows this limit by the type
// of the file system, has 127 for those it does not know, and the kernel gives all FUSE file systems one type, so that
// the case that makes as many links as there may be would be skipped.

#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "lsmfs/tree.h"

extern "C" __attribute__((visibility("default"))) long pathconf(const char* path, int name) noexcept {
  struct statfs about {};
  if (name == _PC_LINK_MAX && statfs(path, &about) == 0 && about.f_type == FUSE_SUPER_MAGIC) return lsmfs::kLinkMax;
  static const auto next = reinterpret_cast<long (*)(const char*, int)>(dlsym(RTLD_NEXT, "pathconf"));
  return next(path, name);
}
