#include "cli/numbers/screen.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace lsmfs::cli {
namespace {

constexpr std::string_view kBegin = "\033[?1049h\033[?25l";  // the second screen, no cursor
constexpr std::string_view kEnd = "\033[0m\033[?25h\033[?1049l";

bool put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// Its first characters, as many as fit; each is taken for one column wide.
std::string_view first_columns(std::string_view line, std::size_t columns) {
  std::size_t bytes = 0;
  while (columns > 0 && bytes < line.size()) {
    const auto character = first_character(line.substr(bytes));
    bytes += character ? character->bytes : 1;
    --columns;
  }
  return line.substr(0, bytes);
}

}  // namespace

std::string drawing(const std::vector<std::string>& lines, WindowSize size) {
  std::string out = "\033[H";
  for (std::size_t i = 0; i < std::min(lines.size(), size.rows); ++i) {
    const std::string_view line = first_columns(lines[i], size.columns);
    out += i == 0 ? fmt::format("\033[7m{:<{}}\033[0m", line, size.columns) : std::string(line) + "\033[K";
    if (i + 1 < size.rows) out += "\r\n";
  }
  if (lines.size() < size.rows) out += "\033[J";
  return out;
}

bool Screen::can_be_had() { return isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0; }

Screen::Screen() {
  tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  raw.c_cc[VSUSP] = _POSIX_VDISABLE;  // who is stopped cannot give the terminal back
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  put(kBegin);
}

Screen::~Screen() {
  put(kEnd);
  // What was typed meanwhile is for nobody. TCSAFLUSH would wait for a terminal that reads nothing.
  tcflush(STDIN_FILENO, TCIFLUSH);
  tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

WindowSize Screen::size() const {
  winsize window{};
  WindowSize size;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 && window.ws_col > 0) size = {window.ws_row, window.ws_col};
  return size;
}

bool Screen::draw(const std::vector<std::string>& lines, WindowSize size) { return put(drawing(lines, size)); }

char Screen::key(std::chrono::milliseconds most) {
  pollfd wait{STDIN_FILENO, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(most.count())) <= 0) return 0;
  char key = 0;
  // The end of it, too, as of a terminal that is gone, ends what is shown there.
  return read(STDIN_FILENO, &key, 1) == 1 ? key : 'q';
}

}  // namespace lsmfs::cli
