#include "cli/transfer/shown_progress.h"

#include <fmt/format.h>

#include <chrono>

#include "cli/messages.h"
#include "cli/sizes.h"

namespace lsmfs::cli {

void ShownProgress::tell(std::uint64_t bytes) {
  if (quiet_ || !line_.can_show()) return;
  const auto now = system_clock().now();
  if (now - told_ < kBetweenWords) return;
  told_ = now;
  const double seconds = std::chrono::duration<double>(now - began_).count();
  line_.show(path_, fmt::format("{}, {}/s", format_size(bytes), format_size(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds))));
}

}  // namespace lsmfs::cli
