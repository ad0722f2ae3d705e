// ParkedCursor: a cursor over a whole family that a reader left where its read ended, so that the next read in key order
// goes on from there: to make a cursor and to seek with it takes longer than to read some rows.
//
// It shows the rows as of an epoch, which is the reader's to count, and serves readers of that epoch only. It keeps the tables
// that it was made on, also when they have been merged since, so none is kept for long, and none while somebody waits for
// space.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "lsmfs/kv.h"

namespace lsmfs {

class ParkedCursor {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kIdle{1000};  // after this without a reader it goes
  static constexpr std::chrono::milliseconds kAge{1000};   // as old as this it serves nobody

  struct Place {
    std::unique_ptr<Cursor> cursor;  // on a row, or after the last; null: there is none
    std::string passed;              // no row lies between this key and the cursor's, if its reader says so
    Clock::time_point made = Clock::now();
  };

  // It is the caller's from then on, who parks it again or not.
  Place take(std::uint64_t epoch) {
    std::lock_guard lock(mutex_);
    if (!place_.cursor || epoch_ != epoch || Clock::now() - place_.made >= kAge) return {};
    return std::move(place_);
  }
  void park(Place place, std::uint64_t epoch) {
    std::lock_guard lock(mutex_);
    if (closed_ > 0) return;
    place_ = std::move(place);
    epoch_ = epoch;
    used_ = Clock::now();
  }
  void clear() {
    std::lock_guard lock(mutex_);
    place_ = {};
  }
  void clear_if_idle() {
    std::lock_guard lock(mutex_);
    if (place_.cursor && Clock::now() - used_ > kIdle) place_ = {};
  }

  // While one lives, none is parked.
  class Closed {
   public:
    explicit Closed(ParkedCursor& parked) : parked_(parked) {
      std::lock_guard lock(parked_.mutex_);
      ++parked_.closed_;
      parked_.place_ = {};
    }
    ~Closed() {
      std::lock_guard lock(parked_.mutex_);
      --parked_.closed_;
    }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;

   private:
    ParkedCursor& parked_;
  };

 private:
  std::mutex mutex_;
  Place place_;
  std::uint64_t epoch_ = 0;
  Clock::time_point used_;
  int closed_ = 0;
};

}  // namespace lsmfs
