#include "tree/blob_readers.h"

#include <algorithm>
#include <utility>

namespace lsmfs {

Result<void> BlobReaders::read(std::uint64_t blob, const BlobEnd& end, std::uint64_t block, MutableBytes to) {
  LSMFS_ASSIGN(const auto found, reader(blob, end, block + to.size() / kBlobBlock));
  return found->read(block, to);
}

// One that has so many blocks at least: of a blob that grows, there may be an older one.
Result<std::shared_ptr<const BlobReader>> BlobReaders::reader(std::uint64_t blob, const BlobEnd& end, std::uint64_t blocks) {
  {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(open_, blob, &Open::blob);
    if (found != open_.end() && found->reader->blocks() >= blocks) {
      open_.splice(open_.begin(), open_, found);
      return found->reader;
    }
  }
  LSMFS_ASSIGN(auto opened, store_.open_blob(blob, end));
  std::shared_ptr<const BlobReader> reader(std::move(opened));
  const MutexLock lock(mutex_);
  std::erase_if(open_, [&](const Open& one) { return one.blob == blob; });
  open_.push_front({blob, reader});
  if (open_.size() > kMost) open_.pop_back();
  return reader;
}

void BlobReaders::forget(std::uint64_t blob) {
  const MutexLock lock(mutex_);
  std::erase_if(open_, [&](const Open& one) { return one.blob == blob; });
}

void BlobReaders::clear() {
  const MutexLock lock(mutex_);
  open_.clear();
}

}  // namespace lsmfs
