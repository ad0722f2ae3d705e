#include "cli/layout/trace_reader.h"

#include <chrono>
#include <new>

namespace lsmfs::cli {
namespace {

// Long enough to leave the processors to those who are measured, and short enough for a buffer of a few hundred KiB.
constexpr auto kPause = std::chrono::milliseconds(20);

}  // namespace

TraceReader::TraceReader(Clock& clock, std::vector<Fd> streams, const TracePages& pages, const BlockEvents& events)
    : clock_(clock), streams_(std::move(streams)), pages_(pages), events_(events), page_(pages.size()), thread_([this] { run(); }) {}

TraceReader::~TraceReader() {
  if (thread_.joinable()) stop();
}

Result<std::vector<BlockEvent>> TraceReader::finish() {
  stop();
  LSMFS_TRY(std::move(outcome_));
  LSMFS_TRY(drain());
  return std::move(read_);
}

void TraceReader::stop() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void TraceReader::run() {
  MutexLock lock(mutex_);
  while (!stop_ && outcome_) {
    clock_.wait(lock, wake_, clock_.now() + kPause, [this]() LSMFS_REQUIRES(mutex_) { return stop_; });
    lock.unlock();
    try {
      outcome_ = drain();
    } catch (const std::bad_alloc&) {
      outcome_ = make_error(ENOMEM, "no memory for the requests of the trace");
    }
    lock.lock();
  }
}

Result<void> TraceReader::drain() {
  for (const Fd& stream : streams_) LSMFS_TRY(drain(stream.get()));
  return {};
}

Result<void> TraceReader::drain(int stream) {
  while (true) {
    const ssize_t got = ::read(stream, page_.data(), page_.size());
    if (got == 0 || (got < 0 && errno == EAGAIN)) return {};
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return make_error(errno, make_error(errno, "the kernel's trace cannot be read").message());
    LSMFS_ASSIGN(const bool lost, pages_.read(Bytes(page_).first(static_cast<std::size_t>(got)),
                                              [this](std::uint64_t time_ns, Bytes record) -> Result<void> {
                                                LSMFS_ASSIGN(const auto event, events_.read(time_ns, record));
                                                if (event) read_.push_back(*event);
                                                return {};
                                              }));
    if (lost) return make_error(EOVERFLOW, "");
  }
}

}  // namespace lsmfs::cli
