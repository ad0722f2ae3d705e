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
  Result<void> truncate(std::uint64_t size) override;
  Result<void> close() override;
  Result<std::uint64_t> size() override;
  Result<std::unique_ptr<Contents>> contents() override;
  Result<void> begin_append() override;
  std::uint64_t scrub_bytes() override;
  Result<void> scrub(const Stop& stop) override;

 private:
  std::uint64_t size_now() const { return buffer_start_ + used_; }
  Result<void> write_buffer();  // whole blocks, the last one padded; keeps a partial block in the buffer
  Result<void> load_tail();     // the partial block at the end, into the buffer
  Result<void> move_last_granule();

  static constexpr std::uint64_t kBuffer = MiB;
  static_assert(kBuffer >= format::kTableGranule && kBuffer >= format::kFixedGranule);

  // All guarded by mutex_. The buffer holds the bytes [buffer_start_, buffer_start_ + used_).
  AlignedBuffer buffer_;
  std::uint64_t buffer_start_ = 0;  // a multiple of the block
  std::uint64_t used_ = 0;
  std::uint64_t written_ = 0;     // bytes before it are on the device as they are in the file
  std::uint64_t synced_ = 0;      // blocks with bytes before it must not be written again
  std::uint64_t recorded_ = 0;    // extents up to here are in the metadata log, or about to be
  bool changed_ = false;          // since the last sync
  std::vector<Extent> replaced_;  // recorded extents that the next sync gives up
};

}  // namespace lsmfs
