#include "tree/blob_readers.h"

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
    const auto found = open_.find(blob);
    if (found != open_.end() && found->second.reader->blocks() >= blocks) {
      order_.renew(found->second);
      return found->second.reader;
    }
  }
  LSMFS_ASSIGN(auto opened, store_.open_blob(blob, end));
  std::shared_ptr<const BlobReader> reader(std::move(opened));
  const MutexLock lock(mutex_);
  drop(blob);
  Open& one = open_[blob];
  one.blob = blob;
  one.reader = reader;
  order_.add(one);
  memory_ += reader->memory();
  while (memory_ > kMost && open_.size() > 1) drop(static_cast<const Open&>(order_.oldest()).blob);
  return reader;
}

void BlobReaders::drop(std::uint64_t blob) {
  const auto found = open_.find(blob);
  if (found == open_.end()) return;
  memory_ -= found->second.reader->memory();
  order_.remove(found->second);
  open_.erase(found);
}

void BlobReaders::forget(std::uint64_t blob) {
  const MutexLock lock(mutex_);
  drop(blob);
}

void BlobReaders::clear() {
  const MutexLock lock(mutex_);
  while (!open_.empty()) drop(open_.begin()->first);
}

}  // namespace lsmfs
