#include <fmt/format.h>

#include <cstring>

#include "lsmfs/base.h"

namespace lsmfs {

std::string Error::message() const {
  char buffer[128];
  // The GNU strerror_r returns the text, which need not be in the buffer.
  const char* reason = strerror_r(code, buffer, sizeof buffer);
  return context.empty() ? std::string(reason) : fmt::format("{}: {}", context, reason);
}

}  // namespace lsmfs
