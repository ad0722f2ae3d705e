// Sends a stream while its next bytes are made.
#pragma once

#include <condition_variable>
#include <optional>
#include <string>
#include <thread>

#include "lsmfs/control.h"
#include "lsmfs/mutex.h"

namespace lsmfs::cli {

// All functions by one thread.
class ImportSender {
 public:
  explicit ImportSender(SentImport& to);
  ~ImportSender();  // sends what was put, and nothing more

  // Takes all that is in `stream`, when what was put before has been sent. False: it has failed, as finish() says.
  bool put(std::string& stream);
  // All that was put has been sent, or the error.
  Result<void> finish();

 private:
  void run();

  SentImport& to_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::string next_ LSMFS_GUARDED_BY(mutex_);
  bool busy_ LSMFS_GUARDED_BY(mutex_) = false;  // something is being sent
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  std::optional<Error> failed_ LSMFS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace lsmfs::cli
