// Prefetcher: notices walks over one family in key order and has something run ahead of each (see walk_ahead.h), so that the
// rows are in the store's block cache before they are asked for. Several at once, for several readers.
//
// Accesses are reported with note(). One whose rows were missing in memory, and that lies where another one has ended a short
// while ago, give or take a few rows, begins a walk. A thread looks up how many rows lie between, for the request that
// reports the access must not wait for that.
// What it is not: it answers nothing; without it everything works, only slower.
//
// Thread-safe.
#pragma once

#include <array>
#include <condition_variable>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lsmfs/mutex.h"
#include "tree/walk_ahead.h"

namespace lsmfs {

class Prefetcher {
 public:
  Prefetcher(RowReader& rows, const PrefetcherOptions& options);
  ~Prefetcher();  // stops and joins all threads

  // Rows in [begin, end) are being read, of about so many bytes. Who cannot tell how many is never taken for one who skips.
  // `wait`: as in the reading; whoever may wait has found them missing in memory.
  void note(std::string_view begin, std::string_view end, Wait wait, std::optional<std::uint64_t> bytes = std::nullopt);
  // Ends all walks, so that their cursors do not hold on to space that is wanted back.
  void let_go();
  // When the rows of an access that was noted are about to be walked over, waits until they have been. For a reader who found
  // them missing in the cache and would otherwise read them a second time.
  void wait_for(std::string_view begin, std::string_view end);
  // Its own, and those of walks: how many wait when there is nothing to do.
  std::size_t threads() const;

 private:
  // Two accesses of one reader, perhaps.
  struct Candidate {
    std::string from, to;  // are there few rows between these two?
    std::string front;     // where the latest access after that ended
  };
  struct Nearest {
    const std::string* end = nullptr;  // null: none
    WalkAhead* walk = nullptr;         // whose reader's it is; null: somebody else's
  };

  WalkAhead* claiming(std::string_view begin) LSMFS_REQUIRES(mutex_);
  Nearest nearest(std::string_view begin) LSMFS_REQUIRES(mutex_);
  void remember(std::string_view end) LSMFS_REQUIRES(mutex_);
  void consider(const Nearest& before, std::string_view begin, std::string_view end) LSMFS_REQUIRES(mutex_);
  void advance(WalkAhead& walk, std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes) LSMFS_REQUIRES(mutex_);
  bool met(const WalkAhead& walk) const LSMFS_REQUIRES(mutex_);
  WalkAhead* idle_walk() LSMFS_REQUIRES(mutex_);
  void run();
  bool is_near(const Candidate& candidate, unsigned tolerated_gap);

  RowReader& rows_;
  const PrefetcherOptions options_;
  mutable Mutex mutex_;
  std::condition_variable work_;
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  // Made when they are first needed; its capacity is as many as there may be.
  std::vector<std::unique_ptr<WalkAhead>> walks_ LSMFS_GUARDED_BY(mutex_);
  std::array<std::string, 32> ends_ LSMFS_GUARDED_BY(mutex_);      // of the latest accesses outside of all walks; a ring
  std::size_t latest_ LSMFS_GUARDED_BY(mutex_) = 0;                // the newest of these
  std::optional<Candidate> candidate_ LSMFS_GUARDED_BY(mutex_);    // that the thread looks at
  unsigned tolerated_gap_ LSMFS_GUARDED_BY(mutex_);                // as in options_, but less after a walk whose reader skipped most of it
  unsigned passed_over_ LSMFS_GUARDED_BY(mutex_) = 0;              // candidates that are not looked at, after several that were nothing ...
  unsigned to_pass_over_ LSMFS_GUARDED_BY(mutex_) = 0;             // ... of so many
  std::thread thread_;
};

}  // namespace lsmfs
