#include <rocksdb/version.h>
#include <zstd.h>

#include "lsmfs/kv.h"

namespace lsmfs {

std::vector<Library> kv_libraries() {
  return {{"RocksDB", rocksdb::GetRocksVersionAsString()}, {"zstd", ZSTD_versionString()}};
}

}  // namespace lsmfs
