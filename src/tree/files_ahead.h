// FilesAhead: has what readers of whole trees read next in the store's block cache before they ask for it, where it does not lie in the order
// of keys. In a clone that was changed, a directory may lie elsewhere than its parent, and each file in it elsewhere again (clones.cc).
// So it goes by names: it reads the entries of directories in their order, each directory where its name stands, and the blocks of the
// files that it meets. Several readers at once.
//
// A reader whose rows were in no memory again and again begins a walk. It goes on only as far as he comes after.
// What it is not: it is no help where rows lie in the order of keys; a Prefetcher (prefetcher.h) reads these by far larger pieces. And it
// answers nothing: without it everything works, only slower.
//
// Thread-safe. It has some threads, from the first walk on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class FilesAhead {
 public:
  // A directory on the way to a file.
  struct Step {
    std::string home;   // where its entries lie
    std::string after;  // of these, that which the way takes; all up to it are passed
  };

  FilesAhead(RowReader& rows, Clock& clock) : rows_(rows), clock_(clock) {}
  ~FilesAhead();  // stops and joins its threads

  // The beginning of a file is being read whose blocks lie under a home of this number. `wait`: as in the reading; whoever may wait has found
  // them in no memory.
  enum class Noted : std::uint8_t {
    known,    // it lies on a walk
    unknown,
    missing,  // so did others before: it should be told the way to that file, by begin()
  };
  Noted note(Ino number, Wait wait);
  bool walks() const { return walking_; }
  // Whether it lies on a walk. `number`: that in the home where the entries of a directory lie.
  bool knows(Ino number) {
    if (!walking_) return false;
    const MutexLock lock(mutex_);
    return with(number) != nullptr;
  }
  // The directories from the root on, down to that of the file.
  void begin(std::vector<Step> way);
  // When the blocks of this file are being read ahead just now, waits until they have been.
  void wait_for(Ino number);
  // Ends all walks, so that nothing that they read holds on to space that is wanted back.
  void let_go();

 private:
  struct File {
    Ino number;
    std::string home;  // until its blocks are being read
    std::size_t beside = 0;   // so many bytes of it are those of the files that lie beside it
    std::uint64_t blocks = 0;
    enum class State : std::uint8_t { to_read, being_read, read } state = State::to_read;
    bool lies_beside(const File& other) const {
      return std::string_view(home).substr(0, beside) == std::string_view(other.home).substr(0, other.beside);
    }
  };
  // Files are counted from the beginning of the walk.
  struct Walk {
    std::uint64_t id = 0;
    std::vector<Step> way;   // to where it looks for more files; none: there are no more
    bool looking = false;    // a thread does so
    unsigned in_vain = 0;    // times in a row
    std::deque<File> files;  // of which the first one is number `first`
    std::uint64_t first = 0, to_read = 0;        // the next to be read
    std::uint64_t passed = 0, met = 0;           // the reader has passed so many of them, and has read so many
    std::unordered_map<Ino, std::uint64_t> places;
    std::uint64_t used = 0;  // when its reader was last seen, as uses_ counts
    std::uint64_t ahead() const;
    std::uint64_t end() const { return first + files.size(); }
    File& file(std::uint64_t number) { return files[number - first]; }
    bool has_to_read() const { return to_read < end() && to_read < passed + ahead(); }
    bool has_to_look() const;
  };

  Walk* find(std::uint64_t id) LSMFS_REQUIRES(mutex_);
  Walk* with(Ino number) LSMFS_REQUIRES(mutex_);
  void advance(Walk& walk, Ino number) LSMFS_REQUIRES(mutex_);
  bool work() LSMFS_REQUIRES(mutex_);
  void look(Walk& walk) LSMFS_REQUIRES(mutex_);
  void read(Walk& walk) LSMFS_REQUIRES(mutex_);
  std::vector<File> more_files(std::vector<Step>& way);
  void read_blocks(const std::string& home, std::uint64_t blocks);
  void run();

  RowReader& rows_;
  Clock& clock_;
  Mutex mutex_;
  std::condition_variable work_, progress_;
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  std::vector<std::unique_ptr<Walk>> walks_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t walks_begun_ LSMFS_GUARDED_BY(mutex_) = 0, uses_ LSMFS_GUARDED_BY(mutex_) = 0;
  unsigned missed_ LSMFS_GUARDED_BY(mutex_) = 0;  // how often rows were missing lately; see note()
  std::atomic<bool> walking_{false};              // whether there are any
  std::vector<std::thread> threads_;              // begin() makes them, under the mutex
};

}  // namespace lsmfs
