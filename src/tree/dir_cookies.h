// DirCookies: what the readdir cookies of one directory mean, for kernels that keep no open handle.
//
// The cookie after an entry is a keyed hash of its name, and so the same in every walk: a kernel that keeps
// one walk's listing finds the place of another in it. (Linux takes a cookie that it does not find in a listing
// that fills whole pages for the end of the directory.)
//
// A walk goes on after the very name it had reached, also when that entry has been removed since. The names behind
// the cookies given lately are remembered, the latest kRecent of each of kRuns walks, and those of the latest
// kRemoved entries that were removed: a walk may have got its cookies from a listing that the kernel keeps. Behind
// any other cookie is an entry that the caller finds by going through the directory.
//
// What it is not: it reads no rows. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lsmfs {

class DirCookies {
 public:
  static constexpr std::uint64_t kEnd = 0x7fff'ffff'ffff'ffff;     // the cookie after the last entry
  static constexpr std::uint64_t kLeast = std::uint64_t{1} << 62;  // those below are the caller's
  static constexpr std::size_t kRecent = 512;
  static constexpr std::size_t kRuns = 64;
  static constexpr std::size_t kRemoved = 32768;

  // Who knows `seed` can make names that share a cookie.
  explicit DirCookies(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t cookie_after(std::string_view name) const;
  // The name after which a walk goes on from `cookie`, "" at the start, that is for a cookie below kLeast;
  // nullopt: it is not remembered.
  std::optional<std::string> resume(std::uint64_t cookie);
  // The entry `name` has been given to the walk that was resumed last.
  void given(std::string_view name);
  // A walk goes on after `name`, which was not remembered.
  void found(std::string_view name);
  void removed(std::string_view name);

 private:
  using Names = std::deque<std::pair<std::uint64_t, std::string>>;  // with their cookies, the latest last
  void start();
  void add(Names& names, std::string_view name, std::size_t most) const;

  std::uint64_t seed_;
  std::deque<Names> runs_;  // the least recently used first
  Names removed_;
};

}  // namespace lsmfs
