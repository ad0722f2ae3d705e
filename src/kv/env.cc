#include "kv/env.h"

#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <chrono>
#include <utility>

#include "lsmfs/device.h"

namespace lsmfs::kv {
namespace {

class SleepsByOurs final : public rocksdb::SystemClockWrapper {
 public:
  SleepsByOurs(const FailStop& fail_stop, Clock& clock)
      : SystemClockWrapper(rocksdb::SystemClock::Default()), fail_stop_(fail_stop), clock_(clock) {}

  const char* Name() const override { return "lsmfs-clock"; }
  void SleepForMicroseconds(int time) override {
    if (!fail_stop_.failed()) clock_.sleep(std::chrono::microseconds(time));
  }

 private:
  const FailStop& fail_stop_;
  Clock& clock_;
};

// Tables that the last reader lets go of are removed in a thread for flushes, of which RocksDB would make one. But a flush may wait
// for their space.
constexpr int kFlushThreads = 2;

// What RocksDB has scheduled for the threads that compact.
struct Job {
  std::shared_ptr<Merges> merges;
  void (*function)(void*);
  void* argument;
  void (*unscheduled)(void*);

  static void run(void* of_it) {
    const std::unique_ptr<Job> job(static_cast<Job*>(of_it));
    const IoFor compaction(IoCause::compaction);
    job->merges->await_turn();
    job->function(job->argument);
    job->merges->ended(false);  // if there was nothing to do
  }
  static void drop(void* of_it) {
    const std::unique_ptr<Job> job(static_cast<Job*>(of_it));
    if (job->unscheduled != nullptr) job->unscheduled(job->argument);
  }
};

class Environment final : public rocksdb::EnvWrapper {
 public:
  Environment(std::unique_ptr<rocksdb::Env> inner, std::shared_ptr<rocksdb::SystemClock> clock, std::shared_ptr<Merges> merges)
      : EnvWrapper(std::move(inner)), merges_(std::move(merges)) {
    file_system_ = target()->GetFileSystem();
    system_clock_ = std::move(clock);
    IncBackgroundThreadsIfNeeded(kFlushThreads, HIGH);
  }

  void SleepForMicroseconds(int time) override { system_clock_->SleepForMicroseconds(time); }

  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag, void (*unscheduled)(void*)) override {
    if (priority != LOW || merges_ == nullptr) return EnvWrapper::Schedule(function, argument, priority, tag, unscheduled);
    EnvWrapper::Schedule(Job::run, new Job{merges_, function, argument, unscheduled}, priority, tag, Job::drop);
  }

 private:
  const std::shared_ptr<Merges> merges_;
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_env(const std::shared_ptr<rocksdb::FileSystem>& files, std::shared_ptr<Merges> merges, const FailStop& fail_stop,
                                       Clock& clock) {
  return std::make_unique<Environment>(rocksdb::NewCompositeEnv(files), std::make_shared<SleepsByOurs>(fail_stop, clock), std::move(merges));
}

}  // namespace lsmfs::kv
