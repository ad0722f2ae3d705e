#include "cli/import_sender.h"

#include <utility>

namespace lsmfs::cli {

ImportSender::ImportSender(SentImport& to) : to_(to) {
  thread_ = named_thread("lsmfs-send", [this] { run(); });
}

ImportSender::~ImportSender() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ImportSender::put(std::string& stream) {
  MutexLock lock(mutex_);
  while (!next_.empty() && !failed_) changed_.wait(lock);
  if (failed_) return false;
  next_.swap(stream);
  changed_.notify_all();
  return true;
}

Result<void> ImportSender::finish() {
  MutexLock lock(mutex_);
  while ((!next_.empty() || busy_) && !failed_) changed_.wait(lock);
  if (failed_) return *failed_;
  return {};
}

void ImportSender::run() {
  std::string stream;
  MutexLock lock(mutex_);
  for (;;) {
    while (next_.empty() && !stop_) changed_.wait(lock);
    if (next_.empty() || failed_) return;
    stream.clear();
    stream.swap(next_);
    busy_ = true;
    changed_.notify_all();
    lock.unlock();
    auto sent = to_.send(stream);
    lock.lock();
    busy_ = false;
    if (!sent) failed_ = std::move(sent.error());
    changed_.notify_all();
  }
}

}  // namespace lsmfs::cli
