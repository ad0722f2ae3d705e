#include "volume/log_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "volume/shared.h"

namespace lsmfs {
namespace {

using format::FrameHeader;
using format::kFrameMax;
using format::kFramePayloadMax;

class LogContents final : public Contents {
 public:
  LogContents(const Journal& journal, std::vector<Extent> extents, std::vector<FrameRef> frames, std::uint64_t size,
              std::string name)
      : journal_(journal),
        extents_(std::move(extents)),
        frames_(std::move(frames)),
        size_(size),
        name_(std::move(name)) {}

  std::uint64_t size() const override { return size_; }

  Result<void> read(std::uint64_t from, MutableBytes to) const override {
    to = to.first(std::min<std::uint64_t>(to.size(), size_ - from));
    auto frame = std::upper_bound(frames_.begin(), frames_.end(), from,
                                  [](std::uint64_t offset, const FrameRef& f) { return offset < f.offset; });
    if (frame != frames_.begin()) --frame;
    thread_local AlignedBuffer bounce;
    while (!to.empty()) {
      if (frame == frames_.end()) return make_error(EIO, fmt::format("{} has no frame at {}", name_, from));
      const std::uint64_t skip = from - frame->offset;
      const std::uint64_t take = std::min<std::uint64_t>(to.size(), frame->length - skip);
      // A payload follows its header, so it is never aligned.
      const std::uint64_t start = round_down(frame->position + skip, format::kBlock);
      const std::uint64_t length = round_up(frame->position + skip + take, format::kBlock) - start;
      if (bounce.size() < length) bounce = AlignedBuffer(std::max(length, 64 * KiB));
      LSMFS_TRY(read_extents(journal_, extents_, start, bounce.bytes().first(length), name_));
      std::memcpy(to.data(), bounce.data() + (frame->position + skip - start), take);
      from += take;
      to = to.subspan(take);
      ++frame;
    }
    return {};
  }

 private:
  const Journal& journal_;
  const std::vector<Extent> extents_;
  const std::vector<FrameRef> frames_;
  const std::uint64_t size_;
  const std::string name_;
};

std::uint64_t random_session() {
  std::random_device source;
  return (std::uint64_t{source()} << 32 | source()) | 1;  // never 0
}

}  // namespace

LogFile::LogFile(Shared& shared, const FileRecord& record, bool fresh)
    : File(shared, record), record_(record), loaded_(fresh) {}

Result<void> LogFile::load() {
  if (loaded_) return {};
  const auto read = [this](std::uint64_t position, MutableBytes to) LSMFS_REQUIRES(mutex_) {
    return read_extents(shared_.journal, extents_, position, to, label());
  };
  LSMFS_ASSIGN(auto scan, scan_log(record_, frame_seed(shared_.seed, id_, seed_), read, shared_.salvage));
  frames_ = std::move(scan.frames);
  size_ = scan.size;
  position_ = scan.position;
  sequence_ = scan.sequence;
  durable_ = scan.sequence;  // the volume was flushed when it was opened
  durable_end_ = scan.position;
  previous_session_ = scan.session;
  stale_cut_ = record_.cut_sequence > sequence_;
  noted_ = record_.synced_sequence;
  record_ = FileRecord{};
  loaded_ = true;
  return {};
}

Result<void> LogFile::begin_append() {
  const MutexLock lock(mutex_);
  LSMFS_TRY(load());
  session_ = random_session();
  if (stale_cut_) {
    // The cut names frames that are not there, and their numbers are given again now. It goes on
    // for those before them, which may hold more.
    std::string operations;
    put_cut(operations, id_, sequence_, size_);
    shared_.journal.change_file(shared_from_this(), std::move(operations));
    stale_cut_ = false;
  }
  if (buffer_.size() == 0) buffer_ = shared_.queue.buffer();
  return {};
}

Result<void> LogFile::ensure_frames(std::uint64_t more) {
  const std::uint64_t bytes = used_ + more, whole = bytes / kFramePayloadMax, rest = bytes % kFramePayloadMax;
  const std::uint64_t before = allocated_;
  LSMFS_TRY(ensure_allocated(position_ + whole * kFrameMax + (rest > 0 ? frame_length(rest) : 0)));
  if (allocated_ > before) {
    // Recorded at once: the flush that makes a frame durable must not come before the record that
    // says where frames are.
    std::vector<Extent> extents = extents_;
    std::string operations;
    put_extents(operations, id_, before, cut_extents(extents, before));
    shared_.journal.change_file(shared_from_this(), std::move(operations));
  }
  return {};
}

WriteQueue::Job LogFile::make_frame() {
  FrameHeader header{};
  header.magic = format::kFrameMagic;
  header.version = kFormatVersion;
  header.payload_length = static_cast<std::uint32_t>(used_);
  header.file_id = id_;
  header.sequence = ++sequence_;
  header.durable_sequence = durable_;
  header.offset = size_ - used_;
  header.session = session_;
  header.previous_session = previous_session_;
  previous_session_ = session_;
  std::memcpy(buffer_.data(), &header, sizeof header);

  const std::uint64_t length = frame_length(used_);
  std::memset(buffer_.data() + sizeof header + used_, 0, length - sizeof header - used_);
  WriteQueue::Job job;
  job.owner = shared_from_this();
  job.stream = &stream_;
  job.sequence = sequence_;
  job.frame = std::exchange(buffer_, shared_.queue.buffer());
  job.seed = frame_seed(shared_.seed, id_, seed_);
  job.places = places(extents_, position_, length);
  frames_.push_back({header.offset, position_ + sizeof header, used_, sequence_});
  position_ += length;
  used_ = 0;
  shared_.queue.begin(job);
  return job;
}

Result<void> LogFile::append(Bytes data) {
  const MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  LSMFS_TRY(ensure_frames(data.size()));
  while (!data.empty()) {
    const std::size_t n = std::min<std::size_t>(data.size(), kFramePayloadMax - used_);
    std::memcpy(buffer_.data() + sizeof(FrameHeader) + used_, data.data(), n);
    used_ += n;
    size_ += n;
    data = data.subspan(n);
    if (used_ == kFramePayloadMax) shared_.queue.push(make_frame());
  }
  return {};
}

Result<void> LogFile::settle(std::uint64_t sequence) {
  shared_.queue.wait(stream_, sequence);
  return shared_.journal.check();
}

Result<void> LogFile::sync() {
  MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  std::optional<WriteQueue::Job> last;
  if (used_ > 0) last = make_frame();
  const std::uint64_t sequence = sequence_, end = position_;
  const bool durable = durable_ >= sequence;
  // From here on others may append: their frames come after ours.
  lock.unlock();
  if (durable) return shared_.journal.commit();
  if (last) shared_.queue.write_now(std::move(*last));
  LSMFS_TRY(settle(sequence));
  LSMFS_TRY(shared_.journal.reach(shared_.journal.next_round()));
  lock.lock();
  durable_ = std::max(durable_, sequence);
  durable_end_ = std::max(durable_end_, end);
  return {};
}

void LogFile::note_synced() {
  const MutexLock lock(mutex_);
  if (!loaded_ || noted_ >= durable_) return;
  noted_ = durable_;
  std::string operations;
  put_synced(operations, id_, noted_);
  shared_.journal.change_file(shared_from_this(), std::move(operations));
}

std::uint64_t LogFile::scrub_bytes() {
  const MutexLock lock(mutex_);
  return load() ? durable_end_ : total_length(record_.extents);
}

// As the next open would find it, without what is still being written.
Result<void> LogFile::scrub(const Stop& stop) {
  FileRecord file;
  {
    const MutexLock lock(mutex_);
    LSMFS_TRY(load());
    file.id = id_;
    file.kind = kind_;
    file.name = label();
    file.extents = extents_;
    cut_extents(file.extents, durable_end_);
    file.synced_sequence = durable_;
  }
  const auto read = [&](std::uint64_t position, MutableBytes to) -> Result<void> {
    if (stop()) return make_error(EINTR, "scrub");
    return read_extents(shared_.journal, file.extents, position, to, file.name);
  };
  LSMFS_TRY(scan_log(file, frame_seed(shared_.seed, id_, seed_), read));
  return {};
}

Result<void> LogFile::truncate(std::uint64_t size) {
  const MutexLock lock(mutex_);
  LSMFS_TRY(shared_.journal.check());
  if (size > size_) return make_error(EINVAL, fmt::format("{} cannot grow by truncation", label()));
  if (size == size_) return {};
  const std::uint64_t framed = size_ - used_;
  if (size >= framed) {
    used_ = size - framed;
    size_ = size;
    return {};
  }
  // A record that names frames which a crash then takes away would say nothing of those before them, that an
  // earlier cut was about.
  if (durable_ < sequence_) {
    LSMFS_TRY(settle(sequence_));
    LSMFS_TRY(shared_.journal.reach(shared_.journal.next_round()));
    durable_ = sequence_;
    durable_end_ = position_;
  }
  used_ = 0;
  size_ = size;
  cut_frames(frames_, size);
  std::string operations;
  put_cut(operations, id_, sequence_, size);
  shared_.journal.change_file(shared_from_this(), std::move(operations));
  return {};
}

Result<void> LogFile::close() {
  const MutexLock lock(mutex_);
  Result<void> result = shared_.journal.check();
  if (result && used_ > 0) shared_.queue.push(make_frame());
  const std::uint64_t sequence = sequence_;
  buffer_ = AlignedBuffer();
  if (!result) return result;
  LSMFS_TRY(settle(sequence));

  std::string operations;
  if (durable_ > noted_) put_synced(operations, id_, noted_ = durable_);
  std::vector<Extent> unused;
  if (const std::uint64_t keep = whole_granules(position_); keep < allocated_) {
    unused = cut_allocation(keep);
    put_extents(operations, id_, keep, {});
  }
  if (!operations.empty()) shared_.journal.change_file(shared_from_this(), std::move(operations), std::move(unused));
  return {};
}

Result<std::uint64_t> LogFile::size() {
  const MutexLock lock(mutex_);
  LSMFS_TRY(load());
  return size_;
}

Result<std::unique_ptr<Contents>> LogFile::contents() {
  const MutexLock lock(mutex_);
  LSMFS_TRY(load());
  std::uint64_t size = size_ - used_;
  if (used_ > 0 && shared_.journal.check()) {
    shared_.queue.push(make_frame());
    size = size_;
  }
  // After a failure of the volume what could not be written is not there to be read.
  const std::uint64_t failed = shared_.queue.wait(stream_, sequence_);
  std::vector<FrameRef> frames = frames_;
  while (!frames.empty() && frames.back().sequence >= failed) {
    size = std::min(size, frames.back().offset);
    frames.pop_back();
  }
  return std::unique_ptr<Contents>(
      std::make_unique<LogContents>(shared_.journal, extents_, std::move(frames), size, label()));
}

}  // namespace lsmfs
