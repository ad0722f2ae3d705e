#include "cli/version.h"

#include <fmt/format.h>
#include <seccomp.h>

#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/fuse.h"
#include "lsmfs/kv.h"
#include "lsmfs/nbd.h"
#include "lsmfs/volume.h"

namespace lsmfs::cli {
namespace {

std::vector<Library> cli_libraries() {
  const scmp_version* const version = seccomp_version();
  return {{"libseccomp", fmt::format("{}.{}.{}", version->major, version->minor, version->micro)}};
}

}  // namespace

std::string version_text() {
  std::string text = fmt::format("lsmfs {}\nformat {}", LSMFS_VERSION, kFormatVersion);
  for (const auto& libraries : {kv_libraries(), fuse_libraries(), base_libraries(), nbd_libraries(), cli_libraries()}) {
    for (const Library& library : libraries) text += fmt::format("\n{} {}", library.name, library.version);
  }
  return text;
}

}  // namespace lsmfs::cli
