// WalkAhead: walks over the rows of one family in key order, ahead of a reader, so that they are in the store's block cache
// when they are asked for: with large device reads, a bounded number of bytes ahead, and only as long as the reader comes
// after. The cache holds immutable table blocks, so running ahead can never show old data.
// What it is not: it does not know when to begin; that is for a Prefetcher, which has several.
//
// Has a thread of its own from its first walk on. Everything but the constructor and the destructor is called under the mutex that it is
// made with. Clang does not check that, for the mutex is its maker's, who has it by another name.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

struct PrefetcherOptions {
  Family family = Family::blocks;
  std::size_t first_window{256 * KiB};  // bytes of rows ahead at the start of a walk ...
  std::size_t last_window{16 * MiB};    // ... growing with what the reader has passed, up to this, of all walks together
  ByteCount device_read{2 * MiB};
  unsigned tolerated_gap = 64;          // rows that a reader may pass over between the two accesses with which a walk begins
  std::size_t walks = 8;                // at once
  Clock* clock = &system_clock();
};

class WalkAhead {
 public:
  // `met`: whether another walk is where this one has come to. Called by the thread, under the mutex.
  WalkAhead(RowReader& rows, const PrefetcherOptions& options, Mutex& mutex, std::function<bool(const WalkAhead&)> met);
  ~WalkAhead();  // stops and joins the thread; not under the mutex

  bool walking() const { return walking_; }
  const std::string& reached() const { return reached_; }  // the walk has passed all rows before this one
  const std::string& front() const { return front_; }      // the furthest end of an access of its reader, or "" at first

  // Must hold: it does not walk. From `from` on; the reader himself has read those from `read` to there, and may say so again.
  // His latest access has ended at `front`.
  void begin(std::string_view read, std::string_view from, std::string_view front);
  void end();
  void forget_reader() { front_.clear(); }

  // Whether the row of this key has been walked over lately.
  bool has_passed(std::string_view key) const { return walking_ && key >= begin_ && key < reached_; }
  // Whether an access at `key` is its reader's, of whom it is known that he has come as far, or further ...
  bool claims(std::string_view key) const { return has_passed(key) || (walking_ && key >= reached_ && key < front_); }
  // ... or is taken as his, for nobody else's was as close before it.
  bool is_followed_at(std::string_view key) const { return walking_ && key >= reached_ && (key == front_ || !misled()); }
  // An access that is this reader's. The result: whether he has read a fair part of what he passed lately, if that is known
  // by now; `bytes` is how many he wants, or nothing when he is not to be judged.
  std::optional<bool> passed(std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes, std::size_t last_window);
  // When rows that the reader wants, up to `end`, are about to be walked over, waits until they have been, or nothing has been
  // walked over for a while.
  void wait_for(MutexLock& lock, std::string_view end);

 private:
  struct Mark {
    std::string key;      // the walk has passed all rows up to this key ...
    std::uint64_t bytes;  // ... which are this many bytes from its start
  };

  void run();
  void walk(MutexLock& lock) LSMFS_REQUIRES(mutex_);
  void consume(std::string_view key);
  void judge_follower();
  bool ahead_enough() const { return awaited_.empty() && walked_ - consumed_ >= window_; }
  bool misled() const;
  bool half_used() const { return walked_ - consumed_ < window_ / 2; }

  RowReader& rows_;
  const PrefetcherOptions options_;
  Clock& clock_;
  Mutex& mutex_;
  const std::function<bool(const WalkAhead&)> met_;
  std::condition_variable work_, progress_;
  bool stop_ = false;
  bool walking_ = false;
  std::uint64_t generation_ = 0;              // counts walks, so that a step knows that it is of an old one
  std::string begin_, reached_, front_;       // it covers [begin_, reached_)
  std::deque<Mark> marks_, behind_;           // that the reader has to pass; that he passed a short while ago
  std::uint64_t walked_ = 0, consumed_ = 0;   // bytes of rows since the walk's start
  std::size_t window_ = 0, last_window_ = 0;
  std::uint64_t passed_ = 0, asked_ = 0;      // bytes that the reader has passed lately, and has asked for of these
  bool resting_ = false;                      // it is ahead enough: until half of that is used, lest it be woken for each step
  std::string awaited_;                       // where an access was that the walk has not come to, or "" ...
  std::uint64_t awaited_from_ = 0;            // ... though it has walked from here
  unsigned misled_ = 0;                       // accesses in a row that it did not come to
  std::thread thread_;
};

}  // namespace lsmfs
