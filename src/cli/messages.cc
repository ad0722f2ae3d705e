#include "cli/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace lsmfs::cli {

void tell(std::string_view line) { fmt::print(stderr, "lsmfs: {}\n", visible(line)); }

void say(const std::string& path, std::string_view line) {
  fmt::print("{}{}\n", line.starts_with(path) ? "" : visible(path) + ": ", visible(line));
}

int report(const Problem& problem) {
  std::string line = problem.text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  tell(line);
  return problem.exit_code;
}

std::string used_by(const std::string& path, const std::string& user) { return fmt::format("{}: is in use: {}; unmount it or end that first", path, user); }

std::string counted_problems(std::uint64_t problems) { return fmt::format("{} problem{}", problems, problems == 1 ? "" : "s"); }

std::string explain(const std::string& path, const Error& error) {
  const auto named = [&](std::string_view text) { return fmt::format("{}: {}", path, text); };
  // Lower layers name the path in their context or do not; said twice is said badly.
  const auto context = [&](std::string_view more = "") {
    std::string text = error.context;
    if (text.find(path) == std::string::npos) text = fmt::format("{}: {}", path, text);
    return text.append(more);
  };
  switch (error.code) {
    case ENOENT:
      return named("does not exist");
    case ENOTBLK:
      return named("is neither a block device nor an image file");
    case EACCES:
    case EPERM:
      return named("no permission; run it with sudo, or as the owner");
    case EROFS:
      return named("is read-only");
    case EBUSY:
      if (error.context.starts_with("is in use by ")) return named(error.context);
      return named("is in use; unmount it first, or end what uses it");
    case EMEDIUMTYPE:
      return named(error.context.starts_with("is not lsmfs") ? error.context : "is not lsmfs; make one with lsmfs mkfs");
    case EPROTONOSUPPORT:
      return context();
    case EUCLEAN:
      return context("; it is damaged");
    case EFBIG:
      return named("may not have that size, by the limit of its file system or of whoever writes it (ulimit -f)");
    case ENOSPC:
    case EINVAL:
      return context();
    default: {
      const std::string text = error.message();
      return text.find(path) == std::string::npos ? named(text) : text;
    }
  }
}

}  // namespace lsmfs::cli
