#include <string>

#include "fuse/facts_ioctl.h"
#include "fuse/mount_ioctl.h"
#include "lsmfs/fuse.h"

namespace lsmfs {

Result<std::string> query_mount(const std::string& path) {
  std::string json(kFactsMax + 1, '\0');
  const auto asked = mount_ioctl(path, kFactsIoctl, json.data());
  json.resize(json.find('\0'));
  // What other file systems say of a request that they do not know, or make of it.
  int code = asked ? 0 : asked.error().code;
  if (code == EINVAL || code == EOPNOTSUPP || code == ENOSYS || (code == 0 && !json.starts_with('{'))) code = ENOTTY;
  if (code != 0) return make_error(code, path);
  return json;
}

}  // namespace lsmfs
