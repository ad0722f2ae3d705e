// DirCookies: what the readdir cookies of one directory mean, for kernels that keep no open handle.
//
// The cookie after an entry is a keyed hash of its name, with two additions for the sake of the listing that
// Linux keeps of a directory and serves other walks from:
//   - a generation. Walks between whose beginnings the directory has changed have different ones, so that no
//     listing is put together from before and after a change.
//   - how full the listing's last page is. If that is full at the end, Linux takes a cookie that is not in the
//     listing for the end of the directory, and so a walk loses what it had yet to be given. Such a walk is given
//     one more entry after the last, at kFull.
//
// A walk goes on after the very name it had reached, also when that entry has been removed since. The names behind
// the cookies given lately are remembered, the latest kRecent of each of kRuns walks that have not ended, and those
// of the latest kRemoved entries that were removed: a walk may have got its cookies from a listing that the kernel
// keeps. Behind any other cookie is an entry that the caller finds by going through the directory.
//
// The directories share a Memory. When all they remember is more than that holds, the one that was listed longest
// ago forgets it.
//
// What it is not: it reads no rows. Not thread-safe, nor are those that share a Memory.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lsmfs/base.h"

namespace lsmfs {

class DirCookies {
 public:
  static constexpr std::uint64_t kEnd = 0x7fff'ffff'ffff'ffff;     // the cookie after the last entry
  static constexpr std::uint64_t kFull = kEnd - 1;                 // the same, but one entry follows that is none
  static constexpr std::uint64_t kLeast = std::uint64_t{1} << 62;  // those below are the caller's
  static constexpr std::size_t kRecent = 256;
  static constexpr std::size_t kRuns = 16;
  static constexpr std::size_t kRemoved = 8192;

  // What a walk is told apart by, besides the name it has reached.
  struct Walk {
    std::uint64_t generation = 0;
    std::uint64_t in_page = 0;  // bytes in the last page of the kernel's listing, 1 to its size
  };

  class Memory {
   public:
    static constexpr std::size_t kMost = 8 * MiB;  // twice of what one directory remembers at most
    std::size_t bytes() const { return bytes_; }

   private:
    friend class DirCookies;
    std::list<DirCookies*> all_;  // the one that was listed, or has forgotten, longest ago first
    std::size_t bytes_ = 0;       // of the names
  };

  // Who knows `seed` can make names that share a cookie. `memory` must outlive it.
  DirCookies(std::uint64_t seed, Memory& memory);
  ~DirCookies();
  DirCookies(const DirCookies&) = delete;
  DirCookies& operator=(const DirCookies&) = delete;

  // The walk that is at `cookie`: below kLeast it is about to be given the first name.
  Walk walk_at(std::uint64_t cookie);
  // The name after which it goes on, "" before the first; nullopt: that is not remembered.
  std::optional<std::string> resume(std::uint64_t cookie);
  // Says of a name whether the cookie follows it; also when this is gone.
  struct Match {
    std::uint64_t seed, hash;
    int hash_bits;
    bool operator()(std::string_view name) const;
  };
  Match match(std::uint64_t cookie) const;
  // Moves the walk past `name`, and gives the cookie after that; `last`: no other name follows.
  std::uint64_t pass(Walk& walk, std::string_view name, bool last) const;
  bool is_full(const Walk& walk) const { return walk.in_page == page_size_; }

  // These names, with a 0 between any two and perhaps after the last, have been given to the walk that was resumed last.
  void given(std::string_view names);
  // A walk goes on after `name`, which was not remembered.
  void found(std::string_view name);
  // The walk that was resumed last has been given all there is.
  void ended();
  // An entry has come, or gone.
  void changed(std::string_view name, bool gone);

 private:
  using Names = std::list<std::pair<std::uint64_t, std::string>>;  // with their hashes, the latest last
  std::uint64_t hash(std::string_view name) const { return hash(name, seed_, hash_bits_); }
  static std::uint64_t hash(std::string_view name, std::uint64_t seed, int bits);
  void start();
  void add(Names& names, std::string_view name, std::size_t most);
  void drop_first(Names& names);
  void drop(Names& names);
  void forget();

  Memory& memory_;
  const std::list<DirCookies*>::iterator place_;  // in it
  std::uint64_t seed_;
  std::uint64_t page_size_;
  int hash_bits_;
  std::uint64_t generation_ = 1;
  bool changed_ = false;  // since the generation began
  std::list<Names> runs_;   // the least recently used first
  Names removed_;
};

}  // namespace lsmfs
