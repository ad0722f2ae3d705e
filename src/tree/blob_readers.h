// BlobReaders: the blobs that are being read, kept open for the next reads: each has its index in memory.
//
// What it is not: it knows no files. Threads: any. It reads the device.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"

namespace lsmfs {

class BlobReaders {
 public:
  // So many are kept, of 300 KiB each at most unless their data were compressed.
  static constexpr std::size_t kMost = 32;

  explicit BlobReaders(Store& store) : store_(store) {}

  // Fills `to` with blocks of a blob from one on, which lie before `end`. Errors: Store::open_blob(), BlobReader::read().
  Result<void> read(std::uint64_t blob, const BlobEnd& end, std::uint64_t block, MutableBytes to);
  void forget(std::uint64_t blob);
  void clear();

 private:
  struct Open {
    std::uint64_t blob;
    std::shared_ptr<const BlobReader> reader;
  };
  Result<std::shared_ptr<const BlobReader>> reader(std::uint64_t blob, const BlobEnd& end, std::uint64_t blocks);

  Store& store_;
  Mutex mutex_;
  std::list<Open> open_ LSMFS_GUARDED_BY(mutex_);  // the one used last comes first
};

}  // namespace lsmfs
