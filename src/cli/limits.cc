#include "cli/limits.h"

#include <sys/resource.h>

#include <algorithm>

namespace lsmfs::cli {
namespace {

constexpr rlim_t kToUnmount = 10;  // seconds

void raise(int resource, rlim_t kept) {
  rlimit limit{RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0) return;
  if (getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 || limit.rlim_max == RLIM_INFINITY) return;
  limit.rlim_cur = std::max(limit.rlim_cur, limit.rlim_max - std::min(kept, limit.rlim_max));
  (void)setrlimit(static_cast<__rlimit_resource>(resource), &limit);
}

}  // namespace

void raise_limits() {
  raise(RLIMIT_FSIZE, 0);
  raise(RLIMIT_CPU, kToUnmount);
}

std::optional<std::uint64_t> largest_file() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

}  // namespace lsmfs::cli
