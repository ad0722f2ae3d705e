// Prefetcher: runs ahead of somebody who walks one family in key order, so that the rows are in
// the store's block cache before they are asked for.
//
// Accesses are reported with note(). When an access is found to lie where the one before it ended,
// give or take a few rows, a thread walks on from there with large device reads, at most a bounded
// number of bytes ahead. It ends when the reader stops, goes elsewhere, or skips most of what was
// read ahead. The cache holds immutable table blocks, so running ahead can never show old data.
// What it is not: it answers nothing; without it everything works, only slower.
//
// Thread-safe. One walk at a time: a second walker takes the place of the first.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lsmfs/kv.h"

namespace lsmfs {

struct PrefetcherOptions {
  Family family = Family::blocks;
  std::size_t first_window{256 * KiB};  // bytes of rows ahead at the start of a walk ...
  std::size_t last_window{16 * MiB};    // ... growing with what the reader has passed, up to this
  ByteCount device_read{2 * MiB};
  unsigned tolerated_gap = 64;           // rows that a walker may pass over between the two accesses with which a walk begins
};

class Prefetcher {
 public:
  Prefetcher(Store& store, const PrefetcherOptions& options);
  ~Prefetcher();  // stops and joins the thread

  // Rows in [begin, end) are being read, of about so many bytes. Who cannot tell how many is never taken for one who skips.
  void note(std::string_view begin, std::string_view end, std::optional<std::uint64_t> bytes = std::nullopt);
  // Ends a walk, so that its cursor does not hold on to space that is wanted back.
  void let_go();
  // When the rows before `end` are about to be walked over, waits until they have been. For a
  // reader who found them missing in the cache and would otherwise read them a second time.
  void wait_for(std::string_view end);

 private:
  enum class Mode { idle, probing, walking };
  struct Mark {
    std::string key;      // the walk has passed all rows up to this key ...
    std::uint64_t bytes;  // ... which are this many bytes from its start
  };

  bool skipped_most(std::uint64_t passed, std::optional<std::uint64_t> asked);
  void end_walk();
  void run();
  void probe(std::unique_lock<std::mutex>& lock);
  void walk(std::unique_lock<std::mutex>& lock);
  bool ahead_enough() const { return walked_ - consumed_ >= window_; }
  bool half_used() const { return walked_ - consumed_ < window_ / 2; }

  Store& store_;
  const PrefetcherOptions options_;
  std::mutex mutex_;
  std::condition_variable work_, progress_;
  bool stop_ = false;
  Mode mode_ = Mode::idle;
  std::string last_end_;               // where the latest access ended
  std::string probe_from_, probe_to_;  // is there little between these two?
  std::string begin_, reached_;        // the walk covers [begin_, reached_)
  std::deque<Mark> marks_;
  std::uint64_t walked_ = 0, consumed_ = 0;  // bytes of rows since the walk's start
  std::size_t window_ = 0;
  std::uint64_t passed_ = 0, asked_ = 0;  // bytes that the reader has passed lately, and has read of these
  unsigned tolerated_gap_;             // as in options_, but less after a walk whose reader skipped most of it
  bool resting_ = false;               // the walk is ahead enough: until half of that is used, lest it be woken for each step
  unsigned beyond_ = 0;                // accesses in a row that lay outside of the walk
  std::uint64_t generation_ = 0;       // counts walks, so that a step knows that it is of an old one
  std::thread thread_;
};

}  // namespace lsmfs
