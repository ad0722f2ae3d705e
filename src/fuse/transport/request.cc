#include "fuse/transport/request.h"

#include "lsmfs/control.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

namespace lsmfs {
namespace {

// By the numbers of linux/fuse.h, whose older versions do not have the last ones.
constexpr std::array<std::string_view, 54> kNames{
    "",          "LOOKUP",    "FORGET",       "GETATTR",  "SETATTR",     "READLINK", "SYMLINK",    "",
    "MKNOD",     "MKDIR",     "UNLINK",       "RMDIR",    "RENAME",      "LINK",     "OPEN",       "READ",
    "WRITE",     "STATFS",    "RELEASE",      "",         "FSYNC",       "SETXATTR", "GETXATTR",   "LISTXATTR",
    "REMOVEXATTR", "FLUSH",   "INIT",         "OPENDIR",  "READDIR",     "RELEASEDIR", "FSYNCDIR", "GETLK",
    "SETLK",     "SETLKW",    "ACCESS",       "CREATE",   "INTERRUPT",   "BMAP",     "DESTROY",    "IOCTL",
    "POLL",      "NOTIFY_REPLY", "BATCH_FORGET", "FALLOCATE", "READDIRPLUS", "RENAME2", "LSEEK",   "COPY_FILE_RANGE",
    "SETUPMAPPING", "REMOVEMAPPING", "SYNCFS", "TMPFILE", "STATX",       "COPY_FILE_RANGE_64"};

}  // namespace

std::string_view request_kind(std::size_t kind) { return kind < kNames.size() ? kNames[kind] : ""; }

std::string Request::text() const {
  const std::string_view known = request_kind(opcode);
  const std::string name = known.empty() ? fmt::format("opcode {}", opcode) : std::string(known);
  return fmt::format("{} of inode {} (request {})", name, ino, unique);
}

}  // namespace lsmfs
