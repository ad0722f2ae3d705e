// kv/fail_stop: the first error after which nothing more may be written.
//
// Shared by the file system under RocksDB, its event listener and the store. Once set it stays.
// Threads: all functions, from any thread.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lsmfs/base.h"
#include "lsmfs/mutex.h"

namespace lsmfs::kv {

class FailStop {
 public:
  explicit FailStop(std::function<void(std::string_view)> notice) : notice_(std::move(notice)) {}

  bool failed() const { return failed_.load(std::memory_order_acquire); }

  std::optional<Error> error() const {
    if (!failed()) return std::nullopt;
    const MutexLock lock(mutex_);
    return error_;
  }

  Result<void> check() const {
    if (auto stopped = error()) return std::move(*stopped);
    return {};
  }

  // Keeps the first error and tells it; later ones are its consequences.
  void set(const Error& error) {
    {
      const MutexLock lock(mutex_);
      if (error_) return;
      error_ = error;
      failed_.store(true, std::memory_order_release);
    }
    notice_("writing has stopped: " + error.message());
  }

  // Reads that failed for good. RocksDB 7.8's iterators may give wrong rows after one, so whoever
  // reads through RocksDB compares this number before and after.
  void count_read_failure() { read_failures_.fetch_add(1, std::memory_order_acq_rel); }
  std::uint64_t read_failures() const { return read_failures_.load(std::memory_order_acquire); }
  // Parts of tables that cannot be read while the device can: for RocksDB they are damaged.
  void count_unreadable() { unreadable_.fetch_add(1, std::memory_order_acq_rel); }
  std::uint64_t unreadable() const { return unreadable_.load(std::memory_order_acquire); }

 private:
  std::function<void(std::string_view)> notice_;
  std::atomic<bool> failed_ = false;
  std::atomic<std::uint64_t> read_failures_ = 0, unreadable_ = 0;
  mutable Mutex mutex_;
  std::optional<Error> error_ LSMFS_GUARDED_BY(mutex_);
};

}  // namespace lsmfs::kv
