// BlobRows: changes of the rows of a file's parts and of patches of its blobs (file_blobs.h), into a batch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lsmfs/kv.h"
#include "tree/file_blobs.h"
#include "tree/keys.h"

namespace lsmfs {

class BlobRows : public FileBlobs::Rows {
 public:
  BlobRows(Batch& batch, Ino number) : batch_(batch), number_(number) {}  // in the file's home
  void put(std::uint64_t first, std::string_view row) override { batch_.put(Family::names, key(first), row); }
  void patch(std::uint64_t first, std::uint32_t offset, std::string_view bytes) override {
    batch_.patch(Family::names, key(first), offset, bytes);
  }
  // The blob itself is left: Tree::open() removes those that no row names.
  void erase(std::uint64_t first, std::uint64_t) override { batch_.erase(Family::names, key(first)); }
  void erase_patches(std::uint64_t from, std::uint64_t to) override {
    if (to - from > kPointEraseMax) return batch_.erase_range(Family::names, keys::blob_patch(number_, BlockIndex{from}), keys::blob_patch(number_, BlockIndex{to}));
    for (; from < to; ++from) batch_.erase(Family::names, keys::blob_patch(number_, BlockIndex{from}));
  }

 private:
  static constexpr std::uint64_t kPointEraseMax = 1024;  // as of blocks (rows.h)
  std::string key(std::uint64_t first) const { return keys::blob(number_, BlockIndex{first}); }
  Batch& batch_;
  const Ino number_;
};

}  // namespace lsmfs
