// Listings: of which entries the answer to READDIRPLUS brings the attributes.
//
// Who looks at each file that it finds, as ls -l, needs no LOOKUP of those whose attributes came with the listing. Who wants names alone, as find, has
// its listings in half the time without. The kernel does not say which of the two it is, so that is found out for each caller. One file goes
// without attributes, as a probe. Who wants them looks it up before it goes on to another directory. If nobody has, that caller's next listings bring
// attributes of directories alone, into which it descends.
//
// A wrong guess ends with the first file of such a listing that anybody looks up: the caller is given all attributes from then on. The kernel keeps
// listings, and gives them to others, too. So after some files that had to be looked up, it forgets all that are without attributes.
//
// What it is not: it knows no programs, only the numbers of threads as the kernel says them. Of these it keeps a bounded number.
//
// Threads: all functions, from any.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/mutex.h"
#include "lsmfs/tree.h"

namespace lsmfs {

class Listings {
 public:
  static constexpr std::size_t kBareMost = 65'536;  // listings without attributes that the kernel may keep
  static constexpr std::size_t kLookedUpMost = 32;  // files in them that are looked up before the kernel forgets them

  struct Plan {
    AttrsOf attrs = AttrsOf::all;
    bool probes = false;        // the first entry goes without attributes, if it is a file of which the kernel has none
    std::vector<Ino> old = {};  // directories whose listings the kernel is to forget
  };
  // For a part of a listing. `caller`: the number of a thread, 0 for one that cannot be told from others. `begins`: it is the first part.
  Plan plan(std::uint64_t caller, Ino dir, bool begins);
  // `file` went without attributes. To be called before the answer is sent.
  void withheld(std::uint64_t caller, Ino dir, Ino file);
  // Somebody has looked up a name in `dir`, which is the file or directory `found`. Gives directories whose listings the kernel is to forget.
  std::vector<Ino> looked_up(Ino dir, const Attr& found);

 private:
  struct Caller {
    enum class Wants : std::uint8_t { unknown, names, attributes };
    std::uint64_t number = 0;
    Wants wants = Wants::unknown;
    Ino dir, probe;  // what it lists; the file in it that went without attributes, 0: none
  };
  static constexpr std::size_t kCallers = 64;

  Caller& caller_of(std::uint64_t number) LSMFS_REQUIRES(mutex_);
  void note_bare(Ino dir, std::uint64_t caller, std::vector<Ino>& old) LSMFS_REQUIRES(mutex_);

  Mutex mutex_;
  std::array<Caller, kCallers> callers_ LSMFS_GUARDED_BY(mutex_);
  std::unordered_map<Ino, std::uint64_t> bare_ LSMFS_GUARDED_BY(mutex_);  // directories that were listed without attributes, and by whom
  std::deque<Ino> bare_order_ LSMFS_GUARDED_BY(mutex_);
  std::size_t looked_up_ LSMFS_GUARDED_BY(mutex_) = 0;  // in them
  std::atomic<bool> waits_{false};  // a file went without attributes: look-ups matter
};

}  // namespace lsmfs
