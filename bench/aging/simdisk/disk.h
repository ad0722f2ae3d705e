// The simulated disk: takes requests, has their data moved to and from the backing file, and answers each when a disk
// of its profile would have.
//
// It serves one request at a time, in the order of ServiceQueue, on a clock of its own:
//   begin  = the later of the request's arrival and the end of the one before
//   finish = begin + service
// What the host does late is thus made up for as long as requests wait. The data is moved while a request waits for its
// turn or during its service, by `workers`, so that the owner goes on to see when others arrive. With the profile none,
// requests are answered as soon as their data is moved, several at the same time.
//
// What it is not: it neither waits nor knows FUSE. Its owner calls submit() when requests come and finish_due() and
// next() when it is time, by the clock of its options.
//
// Threads: all functions from one thread, the owner's, which moves data itself, in next(), when there is no service to do
// that during; with the profile none, who moved the data answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "fuse/serving/workers.h"
#include "lsmfs/clock.h"
#include "simdisk/backing.h"
#include "simdisk/buffers.h"
#include "simdisk/counters.h"
#include "simdisk/model.h"
#include "simdisk/service_queue.h"
#include "simdisk/trace_log.h"

namespace lsmfs::simdisk {

// A request on its way. Whoever submits it fills in the first members.
struct Job {
  Request request;
  Nanos arrival{};
  MutableBytes data;       // of a read: where it goes; of a write: what is written; both within `buffer`
  Buffers::Buffer buffer;  // may be empty when somebody else keeps the data
  // Called once; the error is 0 or an errno. Buffers and requests of FUSE are still there.
  std::function<void(Job&, int error)> answer;

  int error = 0;                       // to be read when `performed`
  std::atomic<bool> performed{false};  // the data is moved
  bool given_away = false;             // to the workers
};

struct DiskOptions {
  Profile profile = Profile::none;
  // How long a request and its answer are on their way between the user and this program, beyond what they would be to
  // a real disk. A request counts as having arrived that much earlier, but never before the one before it ended.
  Nanos path{};
  bool sync = false;  // whether flushes reach the backing file
  std::size_t trace_limit = 8 << 20;
  Clock* clock = &system_clock();
};

class Disk {
 public:
  Disk(Backing& backing, Workers& workers, const DiskOptions& options);
  Nanos now() const { return options_.clock->now().time_since_epoch(); }
  void submit(std::shared_ptr<Job> job);
  // Answers the request under way if its time has come; waits for its data if that is late.
  void finish_due();
  // Begins with the next request if none is under way. When finish_due() will have something to do; nullopt: not before
  // another submit().
  std::optional<Nanos> next();
  // Answers all that waits with EIO. Must hold: the workers have nothing more to do.
  void give_up();

  ByteCount size() const { return backing_.size(); }
  Profile profile() const { return model_.profile(); }
  // For all requests that the disk has not begun with.
  void set_profile(Profile profile) { model_.set_profile(profile); }
  void set_trace(bool on) { on ? trace_.start(now()) : trace_.stop(); }
  std::unique_ptr<TraceText> trace() const { return trace_.text(); }
  // Profile and counters as JSON, one line.
  std::string stats() const;

 private:
  using JobPtr = std::shared_ptr<Job>;
  Nanos begin(const Job& job);  // notes it as served next; the moment when it is finished
  void perform(Job& job);       // from any thread
  void give_away(JobPtr job);   // has it performed by the workers
  void serve_elsewhere(JobPtr job);
  void serve_fresh();

  Backing& backing_;
  Workers& workers_;
  const DiskOptions options_;
  ServiceModel model_;
  ServiceQueue<JobPtr> queue_;
  Counters counters_;
  TraceLog trace_;
  JobPtr current_;  // under way
  // With the profile none: a small request that came alone so far. Unless another comes before next(), it is served
  // there, which saves waking a worker.
  JobPtr fresh_;
  Nanos finish_{};  // when the last request that was begun is or was finished
  Nanos late_{};    // by how much answers came after that, in all
};

}  // namespace lsmfs::simdisk
