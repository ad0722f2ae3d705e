// kv/caches: the memory for table blocks, one cache for each family.
//
// In one cache for both, a walk through file contents throws out the names that the walk itself is about to need: rows of
// names that are read ahead stand for a hundred times as many bytes of contents.
#pragma once

#include <rocksdb/cache.h>

#include <cstdint>
#include <memory>

#include "lsmfs/kv.h"

namespace lsmfs::kv {

// Copies share their memory. Thread-safe.
class Caches {
 public:
  explicit Caches(std::uint64_t bytes);  // of both together

  const std::shared_ptr<rocksdb::Cache>& of(Family family) const { return family == Family::names ? names_ : blocks_; }
  std::uint64_t usage() const;
  void set_capacity(std::uint64_t bytes);  // likewise
  void empty();                            // of all that nobody holds on to

 private:
  std::shared_ptr<rocksdb::Cache> names_, blocks_;
};

}  // namespace lsmfs::kv
