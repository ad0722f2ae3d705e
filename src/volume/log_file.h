// Log files: appended and synced often, as frames that describe themselves (frames.h).
#pragma once

#include "volume/file.h"
#include "volume/frames.h"
#include "volume/write_queue.h"

namespace lsmfs {

class LogFile final : public File {
 public:
  LogFile(Shared& shared, const FileRecord& record, bool fresh);

  Result<void> append(Bytes data) override;
  Result<void> sync() override;
  Result<void> precede_logs() override { return make_error(EINVAL, "a log precedes no log"); }
  Result<void> allocate(std::uint64_t) override { return make_error(EINVAL, "a log takes its space as it grows"); }
  Result<void> truncate(std::uint64_t size) override;
  Result<void> close() override;
  Result<std::uint64_t> size() override;
  Result<std::unique_ptr<Contents>> contents() override;
  Result<void> begin_append() override;
  void note_synced() override;
  std::uint64_t scrub_bytes() override;
  Result<void> scrub(const Stop& stop) override;

 private:
  Result<void> load() LSMFS_REQUIRES(mutex_);                             // finds the frames, once
  Result<void> ensure_frames(std::uint64_t more) LSMFS_REQUIRES(mutex_);  // extents for the buffer and so many more bytes
  WriteQueue::Job make_frame() LSMFS_REQUIRES(mutex_);                    // of what is buffered, which must not be empty
  Result<void> settle(std::uint64_t sequence);                            // waits until frames up to it are written

  FileRecord record_ LSMFS_GUARDED_BY(mutex_);  // as it was at open, until load()
  bool loaded_ LSMFS_GUARDED_BY(mutex_);
  bool stale_cut_ LSMFS_GUARDED_BY(mutex_) = false;
  std::vector<FrameRef> frames_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t size_ LSMFS_GUARDED_BY(mutex_) = 0;         // with what is buffered
  std::uint64_t position_ LSMFS_GUARDED_BY(mutex_) = 0;     // of the next frame, in the extents
  std::uint64_t sequence_ LSMFS_GUARDED_BY(mutex_) = 0;     // of the last frame
  std::uint64_t durable_ LSMFS_GUARDED_BY(mutex_) = 0;      // frames up to it are durable
  std::uint64_t durable_end_ LSMFS_GUARDED_BY(mutex_) = 0;  // where they end, in the extents
  std::uint64_t noted_ LSMFS_GUARDED_BY(mutex_) = 0;        // those of which the metadata log says so
  std::uint64_t session_ LSMFS_GUARDED_BY(mutex_) = 0, previous_session_ LSMFS_GUARDED_BY(mutex_) = 0;
  AlignedBuffer buffer_ LSMFS_GUARDED_BY(mutex_);  // a frame in the making: room for the header, then used_ bytes
  std::uint64_t used_ LSMFS_GUARDED_BY(mutex_) = 0;
  WriteQueue::Stream stream_;  // guarded by the queue
};

}  // namespace lsmfs
