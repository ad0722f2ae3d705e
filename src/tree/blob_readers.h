// BlobReaders: the blobs that are being read, kept open for the next reads: each has its index in memory. Those used longest
// ago go when all take more than so much.
//
// What it is not: it knows no files. Threads: any. It reads the device.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"
#include "tree/use_order.h"

namespace lsmfs {

class BlobReaders {
 public:
  // Bytes of memory: an index takes 1/1024 of data that are not compressed, 1/3600 of others. The one used last is kept anyway.
  static constexpr std::size_t kMost = 16 * MiB;

  explicit BlobReaders(Store& store) : store_(store) {}

  // Fills `to` with blocks of a blob from one on, which lie before `end`. Errors: Store::open_blob(), BlobReader::read().
  Result<void> read(std::uint64_t blob, const BlobEnd& end, std::uint64_t block, MutableBytes to);
  void forget(std::uint64_t blob);
  void clear();

 private:
  struct Open : UseLink {
    std::uint64_t blob = 0;
    std::shared_ptr<const BlobReader> reader;
  };
  Result<std::shared_ptr<const BlobReader>> reader(std::uint64_t blob, const BlobEnd& end, std::uint64_t blocks);
  void drop(std::uint64_t blob) LSMFS_REQUIRES(mutex_);

  Store& store_;
  Mutex mutex_;
  std::map<std::uint64_t, Open> open_ LSMFS_GUARDED_BY(mutex_);  // by number; a map, so that they stay where they are
  UseOrder order_ LSMFS_GUARDED_BY(mutex_);
  std::size_t memory_ LSMFS_GUARDED_BY(mutex_) = 0;  // of all of them
};

}  // namespace lsmfs
