// Tables and small files: plain bytes in extents, written once from front to back.
#pragma once

#include "volume/file.h"

namespace lsmfs {

class TableFile final : public File {
 public:
  TableFile(Shared& shared, const FileRecord& record);
  ~TableFile() override { abandon(replaced_); }

  Result<void> append(Bytes data) override;
  Result<void> sync() override;
  Result<void> precede_logs() override;
  Result<void> allocate(std::uint64_t bytes) override;
  Result<void> truncate(std::uint64_t size) override;
  Result<void> close() override;
  Result<std::uint64_t> size() override;
  Result<std::unique_ptr<Contents>> contents() override;
  Result<void> begin_append() override;
  std::uint64_t scrub_bytes() override;
  Result<void> scrub(const Stop& stop) override;

 private:
  std::uint64_t size_now() const LSMFS_REQUIRES(mutex_) { return buffer_start_ + used_; }
  // What there is goes to the device and into the records of the next round. Whoever wants it durable reaches that.
  Result<void> record() LSMFS_REQUIRES(mutex_);
  Result<void> write_buffer() LSMFS_REQUIRES(mutex_);  // whole blocks, the last one padded; keeps a partial block in the buffer
  Result<void> load_tail() LSMFS_REQUIRES(mutex_);     // the partial block at the end, into the buffer
  Result<void> move_last_granule() LSMFS_REQUIRES(mutex_);

  static constexpr std::uint64_t kBuffer = MiB;
  static constexpr std::uint64_t kDirectly = 64 * KiB;  // to copy less than that costs less than a write of its own
  static_assert(kBuffer >= format::kTableGranule && kBuffer >= format::kFixedGranule);

  // The buffer holds the bytes [buffer_start_, buffer_start_ + used_).
  AlignedBuffer buffer_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t buffer_start_ LSMFS_GUARDED_BY(mutex_) = 0;  // a multiple of the block
  std::uint64_t used_ LSMFS_GUARDED_BY(mutex_) = 0;
  std::uint64_t written_ LSMFS_GUARDED_BY(mutex_) = 0;     // bytes before it are on the device as they are in the file
  std::uint64_t synced_ LSMFS_GUARDED_BY(mutex_) = 0;      // blocks with bytes before it must not be written again
  std::uint64_t recorded_ LSMFS_GUARDED_BY(mutex_) = 0;    // extents up to here are in the metadata log, or about to be
  bool changed_ LSMFS_GUARDED_BY(mutex_) = false;          // since the last sync
  std::vector<Extent> replaced_ LSMFS_GUARDED_BY(mutex_);  // recorded extents that the next sync gives up
};

}  // namespace lsmfs
