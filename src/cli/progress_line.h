// A line on the terminal that says how far something is, and is written over again and again.
#pragma once

#include <string_view>

namespace lsmfs::cli {

class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Whether stderr is a terminal: else nothing is shown.
  bool can_show() const { return terminal_; }
  // "lsmfs: PATH: TEXT", as far as it fits into one line of the terminal: of the path as much as the text leaves.
  void show(std::string_view path, std::string_view text);
  void clear();

 private:
  const bool terminal_ = is_terminal();
  bool shown_ = false;

  static bool is_terminal();
};

}  // namespace lsmfs::cli
