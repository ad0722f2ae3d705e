// DirCookies: what the readdir cookies of one directory mean, for kernels that keep no open handle.
//
// A walk from the start opens a run; the entries it gives are numbered 1, 2, 3 ... and the cookie
// after an entry is (run, number). The run remembers names, so that a walk goes on after the very
// name it had reached, whatever was created or removed meanwhile. The latest kRecent names of a run
// are kept in full, of the older ones each kStride-th: going back that far skips by counting.
//
// What it is not: it reads no rows. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace lsmfs {

class DirCookies {
 public:
  static constexpr std::uint64_t kEnd = 0x7fff'ffff'ffff'ffff;  // the cookie after the last entry
  static constexpr std::uint64_t kLeast = std::uint64_t{1} << 40;  // those below are the caller's
  static constexpr std::size_t kRecent = 4096;
  static constexpr std::size_t kStride = 64;
  static constexpr std::size_t kRuns = 8;

  struct Position {
    std::uint32_t run = 0;
    std::uint64_t number = 0;    // entries given so far in the walk
    std::string after;           // go on with the first name over this one; "" is the start
    std::uint64_t skip = 0;      // and pass over this many entries first
  };

  // Where to go on for a cookie given earlier (0: the first name). A cookie that is not known any more
  // means its number of entries from the start.
  Position resume(std::uint64_t cookie);
  // The cookie after the entry that is next at `position`.
  static std::uint64_t cookie_after(const Position& position);
  // That entry has been given, and has this name.
  void advance(Position& position, std::string_view name);

 private:
  struct Run {
    std::uint32_t id = 0;
    std::uint64_t first = 0;   // number of the entry before recent.front()
    std::deque<std::string> recent;
    std::vector<std::pair<std::uint64_t, std::string>> sparse;  // number, name; ascending
  };

  Run* find(std::uint32_t id);
  Run* use(std::uint32_t id);  // the same, and makes it the most recently used
  Run& start(std::uint64_t number);

  std::deque<Run> runs_;  // the least recently used first
  std::uint32_t next_id_ = 1;
};

}  // namespace lsmfs
