// Reads what the kernel traces while it traces it, in a thread of its own, so that its buffers need not hold all.
//
// Threads: the thread that made it; the other one is inside.
#pragma once

#include <condition_variable>
#include <thread>
#include <vector>

#include "cli/layout/trace_events.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs::cli {

class TraceReader {
 public:
  // `streams`: one for each processor, trace_pipe_raw of tracefs or what behaves like it: a page for each read(2), and
  // EAGAIN or an end when there is nothing now.
  TraceReader(Clock& clock, std::vector<Fd> streams, const TracePages& pages, const BlockEvents& events);
  ~TraceReader();

  // Reads what is left and ends. Must hold: nothing is traced any more, and it was not called before.
  // Errors: EBADMSG (not understood), EOVERFLOW (events were lost), those of read(2).
  Result<std::vector<BlockEvent>> finish();

 private:
  void run();
  Result<void> drain();
  Result<void> drain(int stream);
  void stop();

  Clock& clock_;
  const std::vector<Fd> streams_;
  const TracePages pages_;
  const BlockEvents events_;
  std::vector<std::byte> page_;
  // Of the thread until it has ended.
  std::vector<BlockEvent> read_;
  Result<void> outcome_;

  Mutex mutex_;
  std::condition_variable wake_;
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lsmfs::cli
