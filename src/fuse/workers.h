// A fixed number of threads that run closures in the order they came.
//
// What it is not: it has no priorities, no results and no limit; the kernel bounds how many
// requests can be waiting. Threads: all functions from any thread; drain() not from a worker.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace lsmfs {

class Workers {
 public:
  explicit Workers(unsigned threads);
  ~Workers();  // runs what is still queued, then joins
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void submit(std::function<void()> work);
  // Waits until nothing is queued or running.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable work_or_stop_, idle_;
  std::deque<std::function<void()>> queue_;  // guarded by mutex_, as the two below
  unsigned running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace lsmfs
