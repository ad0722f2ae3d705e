// A fixed number of threads that run closures in the order they came. Of those without work the one that had some last gets the
// next: its processor is the warmest.
//
// What it is not: it has no priorities, no results and no limit; the kernel bounds how many
// requests can be waiting. Threads: all functions from any thread; drain() not from a worker.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "fuse/transport/request.h"
#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

struct UnderWay {
  Request request;
  std::string state;  // what it waits for
};

class Workers {
 public:
  // `name`: of each thread, as of name_thread(). `clock`: tells since when a request waits. `ended`: hears of each request that has
  // not been handed on, when what was submitted for it has run.
  using Ended = std::function<void(const Request&)>;
  Workers(unsigned threads, const char* name, Clock& clock, Ended ended = {});
  ~Workers();  // runs what is still queued, then joins
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // `work` is of the request that the calling thread works on.
  void submit(std::function<void()> work);
  // Waits until nothing is queued or running.
  void drain();
  // What is queued or running now.
  std::vector<UnderWay> under_way() const;

 private:
  struct Job {
    std::function<void()> work;
    Request request;
  };
  struct Running {
    Request request;
    const Waits* waits;  // of the thread that runs it
  };

  // A thread without work.
  struct Idler {
    std::condition_variable called;
    bool is_called = false;
  };

  void run();
  void call_idler() LSMFS_REQUIRES(mutex_);  // there is one

  Clock& clock_;
  const Ended ended_;
  mutable Mutex mutex_;
  std::vector<Idler*> idlers_ LSMFS_GUARDED_BY(mutex_);  // the one that had work last comes last
  std::condition_variable all_done_;
  std::deque<Job> queue_ LSMFS_GUARDED_BY(mutex_);
  std::list<Running> running_ LSMFS_GUARDED_BY(mutex_);
  bool stopping_ LSMFS_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace lsmfs
