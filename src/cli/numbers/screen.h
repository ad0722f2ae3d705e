// A terminal as a screen that is drawn over again and again: the window of the terminal is given back as it was at the end.
//
// What it is not: it knows no terminals by name. It takes the sequences that all of today's understand (ECMA-48, and xterm's second screen).
#pragma once

#include <termios.h>

#include <chrono>
#include <string>
#include <vector>

#include "lsmfs/base.h"

namespace lsmfs::cli {

struct WindowSize {
  std::size_t rows = 24, columns = 80;
  friend bool operator==(const WindowSize&, const WindowSize&) = default;
};

class Screen {
 public:
  static bool can_be_had();  // stdin and stdout are terminals
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  WindowSize size() const;
  // As much of it as fits. The first line is shown inverted. False: the terminal is gone.
  bool draw(const std::vector<std::string>& lines, WindowSize size);
  // Waits so long at most, or less for no reason. Gives the key that was pressed, 0: none.
  char key(std::chrono::milliseconds most);

 private:
  termios before_{};
};

// What draw() writes.
std::string drawing(const std::vector<std::string>& lines, WindowSize size);

}  // namespace lsmfs::cli
