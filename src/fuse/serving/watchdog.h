// Tells people of requests that wait for very long, and what they wait for: once they have waited for the limit, again
// each time that has doubled, and when they are over. What it is not: it changes nothing, and ends no request.
//
// It looks at what is under way now and then, in a thread of its own; so it hears of a request some time after its beginning
// or its end, a fifteenth of the limit at most.
//
// Threads: a Reader belongs to the thread that made it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "fuse/serving/workers.h"
#include "fuse/transport/request.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class Watchdog {
 public:
  // `workers`: those to look at; they must outlive it. `notice`: hears one line at a time.
  Watchdog(Clock& clock, std::chrono::milliseconds limit, std::vector<const Workers*> workers,
           std::function<void(std::string_view)> notice);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // A thread that reads requests, from its making to its end in that thread. The watchdog must outlive it.
  class Reader {
   public:
    explicit Reader(Watchdog& watchdog);
    ~Reader();
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;

    // The thread works on this request from now until end(). Cheap enough for every request.
    void begin(const Request& request) {
      opcode_.store(request.opcode, std::memory_order_relaxed);
      ino_.store(request.ino, std::memory_order_relaxed);
      unique_.store(request.unique, std::memory_order_relaxed);
    }
    void end() { opcode_.store(0, std::memory_order_relaxed); }

   private:
    friend class Watchdog;

    Watchdog& watchdog_;
    const Waits& waits_;
    std::atomic<std::uint32_t> opcode_{0};
    std::atomic<std::uint64_t> ino_{0}, unique_{0};
    Request seen_;  // what the thread was at when it was last looked at; the watching thread's own
  };

 private:
  struct Told {
    Request request;
    Clock::Duration next;  // how long it must have waited to be told of again
  };

  void run();
  void look();
  std::vector<UnderWay> under_way();

  Clock& clock_;
  const std::chrono::milliseconds limit_;
  const std::vector<const Workers*> workers_;
  const std::function<void(std::string_view)> notice_;
  std::map<std::uint64_t, Told> told_;  // by `unique`; the watching thread's own

  Mutex mutex_;
  std::condition_variable stop_;
  bool stopping_ LSMFS_GUARDED_BY(mutex_) = false;
  std::set<Reader*> readers_ LSMFS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace lsmfs
