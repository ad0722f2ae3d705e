#include "kv/env.h"

#include <rocksdb/file_system.h>
#include <rocksdb/system_clock.h>

#include <chrono>
#include <utility>

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

class Environment final : public rocksdb::EnvWrapper {
 public:
  Environment(std::unique_ptr<rocksdb::Env> inner, std::shared_ptr<rocksdb::SystemClock> clock) : EnvWrapper(std::move(inner)) {
    file_system_ = target()->GetFileSystem();
    system_clock_ = std::move(clock);
    IncBackgroundThreadsIfNeeded(kFlushThreads, HIGH);
  }

  void SleepForMicroseconds(int time) override { system_clock_->SleepForMicroseconds(time); }
};

}  // namespace

std::unique_ptr<rocksdb::Env> make_env(const std::shared_ptr<rocksdb::FileSystem>& files, const FailStop& fail_stop, Clock& clock) {
  return std::make_unique<Environment>(rocksdb::NewCompositeEnv(files), std::make_shared<SleepsByOurs>(fail_stop, clock));
}

}  // namespace lsmfs::kv
