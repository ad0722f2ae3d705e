#include "simdisk/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace lsmfs::simdisk {

void tell(std::string_view line) {
  std::string text(line);
  std::replace(text.begin(), text.end(), '\n', ' ');
  fmt::print(stderr, "simdisk: {}\n", text);
}

int fail(int exit_code, std::string_view line) {
  tell(line);
  return exit_code;
}

std::string explain(const std::string& path, const Error& error) {
  const auto named = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  switch (error.code) {
    case ENOENT:
      return named("does not exist; make it first");
    case ENOTDIR:
      return named("is not a directory, or lies below what is none; name another place");
    case EACCES:
    case EPERM:
      return named("no permission; run it as root");
    case EBUSY:
      return named("is in use; end what uses it first");
    case ENODEV:
      return named("no /dev/fuse; load the fuse module");
    case EISDIR:
    case ENOTBLK:
      return named("is not a regular file; name one, or one that --size can make");
    case ENOSPC:
    case EFBIG:
      return named("cannot grow so large there; choose another place or size");
    default:
      return named(error.message());
  }
}

}  // namespace lsmfs::simdisk
