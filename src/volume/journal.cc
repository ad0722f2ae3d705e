#include "volume/journal.h"

#include <fmt/format.h>

namespace lsmfs {

Journal::Journal(Device& device, Catalog catalog, MetadataLog log)
    : device_(device), writable_(device.writable()), catalog_(std::move(catalog)), log_(std::move(log)) {}

Result<void> Journal::write(std::uint64_t at, Bytes data) {
  LSMFS_TRY(check());
  if (auto r = device_.write(ByteOffset{at}, data); !r) return fail(std::move(r.error()));
  return {};
}

Result<void> Journal::read(std::uint64_t at, MutableBytes to, std::string_view what) const {
  if (device_.read(ByteOffset{at}, to)) return {};
  auto again = device_.read(ByteOffset{at}, to);
  if (again) return {};
  return make_error(EIO, fmt::format("{}: {}", what, again.error().message()));
}

Result<void> Journal::discard(const Extent& extent) {
  LSMFS_TRY(check());
  return device_.discard(ByteOffset{extent.start}, ByteCount{extent.length});
}

Result<void> Journal::check() const {
  if (!writable_) return make_error(EROFS, fmt::format("{} is open read-only", device_.path()));
  if (!stopped_.load(std::memory_order_acquire)) return {};
  const MutexLock lock(mutex_);
  if (failure_) return *failure_;
  return make_error(EBADF, fmt::format("the volume on {} is closed", device_.path()));
}

std::optional<Error> Journal::failure() const {
  const MutexLock lock(mutex_);
  return failure_;
}

Error Journal::fail(Error error) {
  const MutexLock lock(mutex_);
  if (!failure_) failure_ = std::move(error);
  stopped_.store(true, std::memory_order_release);
  done_changed_.notify_all();
  return *failure_;
}

void Journal::close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  stopped_.store(true, std::memory_order_release);
}

std::uint64_t Journal::change(std::string operations, const FilePtr& replaced) {
  const MutexLock lock(mutex_);
  pending_.operations += operations;
  if (replaced) {
    replaced->note_removed();
    pending_.removed.push_back(replaced);
  }
  return pending_round_ = started_ + 1;
}

std::uint64_t Journal::change_file(const FilePtr& file, std::string operations, std::vector<Extent> retired) {
  const MutexLock lock(mutex_);
  if (!file->removed()) pending_.operations += operations;
  // The record of a removal frees what the file once had; so these wait for a round in any case.
  if (!retired.empty()) pending_.retired.emplace_back(file, std::move(retired));
  return pending_round_ = started_ + 1;
}

std::uint64_t Journal::next_round() const {
  const MutexLock lock(mutex_);
  return started_ + 1;
}

std::uint64_t Journal::last_change() const {
  const MutexLock lock(mutex_);
  return pending_round_;
}

bool Journal::frees_pending() const {
  const MutexLock lock(mutex_);
  return pending_round_ > done_;
}

Result<void> Journal::commit() {
  LSMFS_TRY(check());
  return reach(last_change());
}

Result<void> Journal::reach(std::uint64_t round) {
  MutexLock lock(mutex_);
  while (done_ < round) {
    if (failure_) return *failure_;
    if (closed_) return make_error(EBADF, "the volume is closed");
    if (running_) {
      const Waiting waiting("the flush of another thread");
      done_changed_.wait(lock);
      continue;
    }
    running_ = true;
    const std::uint64_t mine = ++started_;
    Round taken = std::exchange(pending_, Round{});
    lock.unlock();
    auto result = run(taken);
    // Before the others hear of it: they may be waiting for the space.
    if (result) release(taken);
    if (!result) fail(std::move(result.error()));
    lock.lock();
    running_ = false;
    if (!failure_) done_ = mine;
    done_changed_.notify_all();
    if (failure_) return *failure_;
  }
  return {};
}

void Journal::look_at_log(const std::function<void(const MetadataLog&)>& look) {
  between_rounds([&] { look(log_); });
}

void Journal::grow(std::uint64_t length) {
  between_rounds([&] { catalog_.grow(length); });
}

void Journal::between_rounds(const std::function<void()>& alone) {
  MutexLock lock(mutex_);
  {
    const Waiting waiting("the flush of another thread");
    done_changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return !running_; });
  }
  running_ = true;
  lock.unlock();
  alone();
  lock.lock();
  running_ = false;
  done_changed_.notify_all();
}

Result<void> Journal::run(Round& round) {
  const IoFor metadata(IoCause::metadata);
  if (!round.operations.empty()) {
    LSMFS_TRY(catalog_.apply(round.operations));
    LSMFS_TRY(log_.append(round.operations, [this] { return catalog_.snapshot(); }));
  }
  return device_.flush();
}

void Journal::release(Round& round) {
  for (auto& [file, extents] : round.retired) file->retire(std::move(extents));
  for (auto& file : round.removed) file->note_removal_durable();
  round = Round{};  // the last owner of a removed file gives its extents back
}

}  // namespace lsmfs
