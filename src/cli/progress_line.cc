#include "cli/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

constexpr std::size_t kUsualColumns = 80;

// One is left free: many terminals go to the next line when the last is written.
std::size_t columns() {
  winsize size{};
  return (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsualColumns) - 1;
}

// Its last characters, at most so many.
std::string end_of(std::string_view text, std::size_t most) {
  std::size_t characters = 0;
  const auto begins = [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; };
  for (std::size_t at = text.size(); at-- > 0;) {
    if (begins(text[at]) && ++characters > most) return "..." + end_of(text.substr(at + 1), most > 3 ? most - 3 : 0);
  }
  return std::string(text);
}

}  // namespace

bool ProgressLine::is_terminal() { return isatty(STDERR_FILENO) != 0; }

void ProgressLine::show(std::string_view path, std::string_view text) {
  if (!terminal_) return;
  constexpr std::string_view kFormat = "lsmfs: : ";
  const std::size_t width = columns(), taken = kFormat.size() + text.size();
  // A line of little else than dots says less than the text alone.
  constexpr std::size_t kLeastPath = 8;
  const std::string line = taken + kLeastPath <= width ? fmt::format("lsmfs: {}: {}", end_of(visible(path), width - taken), text) : std::string(text.substr(0, width));
  fmt::print(stderr, "\r\033[K{}", line);
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace lsmfs::cli
