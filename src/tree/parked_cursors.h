// ParkedCursors: cursors over a whole family that readers left where their reads ended, so that the next read in key order
// goes on from there: to make a cursor and to seek with it takes longer than to read some rows. Several, for several readers
// that take turns.
//
// They show the rows as of an epoch, which is the readers' to count, and serve readers of that epoch only. Each keeps the
// tables that it was made on, also when they have been merged since, so none is kept for long, and none while somebody waits
// for space.
// Thread-safe.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class ParkedCursors {
 public:
  static constexpr std::chrono::milliseconds kIdle{1000};  // after this without a reader one goes
  static constexpr std::chrono::milliseconds kAge{1000};   // as old as this one serves nobody
  static constexpr std::size_t kMost = 8;

  struct Place {
    std::unique_ptr<Cursor> cursor;  // on a row, or after the last; null: there is none
    std::string passed;              // no row lies between this key and the cursor's
    Clock::Time made{}, used{};

    // Whether the cursor is on the first row from `target` on.
    bool is_at(std::string_view target) const { return cursor && cursor->valid() && passed < target && target <= cursor->key(); }
  };

  explicit ParkedCursors(Clock& clock) : clock_(clock) {}

  // One that is at `target`; or, when as many are parked as may be, the one that was used the longest time ago; or none, for
  // the caller to make. It is his from then on, who parks it again or not.
  Place take(std::uint64_t epoch, std::string_view target);
  void park(Place place, std::uint64_t epoch);
  void clear();
  void clear_idle();

  // While one lives, none is parked.
  class Closed {
   public:
    explicit Closed(ParkedCursors& parked);
    ~Closed();
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    ParkedCursors& parked_;
  };

 private:
  using Places = std::array<Place, kMost>;

  Place& replaceable() LSMFS_REQUIRES(mutex_);

  Clock& clock_;
  Mutex mutex_;
  Places places_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t epoch_ LSMFS_GUARDED_BY(mutex_) = 0;  // of all that are parked
  int closed_ LSMFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace lsmfs
