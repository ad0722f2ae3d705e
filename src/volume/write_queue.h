// Writes the frames of log files from a thread of its own, so that appending costs a copy in memory.
//
// Frames may have to come after what is in tables (hold_until): that is flushed first, then.
//
// What it is not: it makes no frame durable; errors stop the volume (Journal::fail) and
// are seen by whoever syncs. Thread-safe; its lock is taken after all others but Space's.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "lsmfs/mutex.h"
#include "volume/format.h"
#include "volume/journal.h"

namespace lsmfs {

class WriteQueue {
 public:
  explicit WriteQueue(Journal& journal) : journal_(journal) {}
  ~WriteQueue() { stop(); }

  // The writes of one file that are under way, by the sequence of the frame.
  class Stream {
    friend class WriteQueue;
    std::set<std::uint64_t> under_way_;
    std::uint64_t first_failed_ = UINT64_MAX;
  };

  struct Job {
    std::shared_ptr<void> owner;  // keeps the file, and so the stream, alive
    Stream* stream = nullptr;
    std::uint64_t sequence = 0;
    AlignedBuffer frame;  // its checksum is still to be set
    std::uint64_t seed = 0;
    std::vector<Extent> places;  // on the device, in the order of the bytes
    IoCause cause = IoFor::current();
    std::uint64_t after = 0;     // the journal's round that must be durable before it is written
  };

  // Frames that begin from now on are written when that round of the journal is durable.
  void hold_until(std::uint64_t round);
  void begin(Job& job);     // the frame is under way from now on
  void push(Job job);       // must have begun; waits while 8 MiB are queued
  void write_now(Job job);  // must have begun; writes in the calling thread
  // Waits until no frame of the stream up to `sequence` is under way. Gives the first sequence that
  // could not be written, UINT64_MAX when all could.
  std::uint64_t wait(const Stream& stream, std::uint64_t sequence);

  AlignedBuffer buffer();  // kFrameMax bytes of any contents
  void stop();             // finishes what is queued

 private:
  static constexpr std::uint64_t kBound = 8 * MiB;
  // Buffers kept for the next frames: of the one in the making and the one being written. A burst takes more, of memory
  // that is given back after it.
  static constexpr std::size_t kSpare = 2;

  void perform(Job& job);
  void loop();

  Journal& journal_;
  Mutex mutex_;
  std::condition_variable work_, room_, done_;
  std::deque<Job> jobs_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t queued_ LSMFS_GUARDED_BY(mutex_) = 0;  // bytes in jobs_
  std::uint64_t held_until_ LSMFS_GUARDED_BY(mutex_) = 0;
  std::vector<AlignedBuffer> spare_ LSMFS_GUARDED_BY(mutex_);
  bool stopping_ LSMFS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // started by the first push
};

}  // namespace lsmfs
