#include <fmt/format.h>
#include <liburing.h>

#include "fuse/transport/libfuse.h"
#include "lsmfs/fuse.h"

namespace lsmfs {
namespace {

std::string version_of_liburing() {
#ifdef IO_URING_VERSION_MAJOR  // from 2.4 on; before, it does not tell
  return fmt::format("{}.{}", io_uring_major_version(), io_uring_minor_version());
#else
  return LSMFS_URING_VERSION;
#endif
}

}  // namespace

std::vector<Library> fuse_libraries() { return {{"libfuse", fuse_pkgversion()}, {"liburing", version_of_liburing()}}; }

}  // namespace lsmfs
