// lsmfs info: facts of a file system, asked from its daemon when it is mounted.

#include <fmt/format.h>
#include <sys/stat.h>

#include "cli/commands.h"
#include "cli/device_use.h"
#include "cli/exit_codes.h"
#include "cli/facts.h"
#include "cli/messages.h"
#include "cli/opened.h"
#include "cli/paths.h"
#include "lsmfs/fuse.h"

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
  OpenOptions options;
  options.access = Access::read_only;
  options.notice = [](std::string_view line) { fmt::print(stderr, "lsmfs: {}\n", line); };
  LSMFS_ASSIGN(auto opened, Opened::open(path, options));
  return facts_json(opened, "");
}

}  // namespace

int info(const InfoArguments& arguments) {
  const std::string path = absolute_path(arguments.path);
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) {
    if (errno == ENOTCONN) {
      return report({kFailure, path + ": is a mount whose daemon is gone; take it away with umount -l"});
    }
    return report({kFailure, explain(path, make_error(errno, path))});
  }
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
  const auto json = facts_of_device(path);
  if (json) return print(*json, arguments.json);
  if (json.error().code == EMEDIUMTYPE) {
    // Perhaps a file of a mounted lsmfs is meant.
    if (const auto inside = query_mount(path)) return print(*inside, arguments.json);
  }
  return report({kFailure, explain(path, json.error())});
}

}  // namespace lsmfs::cli
