// lsmfs info: facts of a file system, asked from its daemon when it is mounted.

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/confine.h"
#include "cli/contents.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/host.h"
#include "cli/messages.h"
#include "cli/opened.h"
#include "cli/sources.h"
#include "cli/udev.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

int print(const std::string& json, bool as_json) {
  if (as_json) {
    fmt::print("{}\n", json);
    return kOk;
  }
  const auto text = facts_text(json);
  if (!text) return report({kFailure, "the daemon's answer is not understood; is it of another version?"});
  fmt::print("{}", *text);
  return kOk;
}

Result<std::string> facts_of_device(const std::string& path) {
  LSMFS_ASSIGN(auto device, open_source(path, Access::read_only, Sharing::locked));
  LSMFS_TRY(refuse_others(*device, tell));
  Host here;
  confine(tell);
  LSMFS_TRY(keep_others_out(*device, here));
  OpenOptions options;
  options.opening = tell;
  LSMFS_ASSIGN(auto opened, Opened::open(std::move(device), options));
  return facts_json(opened, nullptr);
}

// For a rule of udev, which must not wait for a log to be replayed.
int print_properties(const std::string& path) {
  const auto device = open_source(path, Access::read_only, Sharing::shared);
  confine(tell);
  const auto info = device ? read_volume_info(**device) : Result<VolumeInfo>(device.error());
  if (!info) return report({kFailure, explain(path, info.error())});
  fmt::print("{}", udev_properties(*info));
  return kOk;
}

}  // namespace

int info(const InfoArguments& arguments) {
  const auto source = find_source(arguments.path);
  if (!source) return report({kFailure, source.error().context});
  const std::string& path = *source;
  if (arguments.udev) return print_properties(path);
  if (const auto there = check_there(path); !there) {
    if (there.error().code == ENOTCONN) {
      return report({kFailure, path + ": is a mount whose daemon is gone; take it away with umount -l"});
    }
    return report({kFailure, explain(path, there.error())});
  }
  struct stat facts {};
  (void)stat(path.c_str(), &facts);  // of a server there are none
  if (S_ISDIR(facts.st_mode)) {
    const auto json = query_mount(path);
    if (json) return print(*json, arguments.json);
    if (json.error().code == ENOTTY) return report({kFailure, path + ": is not in an lsmfs"});
    return report({kFailure, explain(path, json.error())});
  }
  if (const auto where = mounted_where(path)) {
    const auto json = query_mount(*where);
    if (json) return print(*json, arguments.json);
    return report({kFailure, explain(*where, json.error())});
  }
  // Perhaps a file of a mounted lsmfs is meant, unless it is an image. To be asked first: then there are the rights for it.
  const auto around = S_ISREG(facts.st_mode) ? query_mount(path) : make_error(ENOTTY, path);
  const auto json = facts_of_device(path);
  if (json) return print(*json, arguments.json);
  if (around && json.error().code == EMEDIUMTYPE) return print(*around, arguments.json);
  return report({kFailure, explain(path, json.error())});
}

}  // namespace lsmfs::cli
