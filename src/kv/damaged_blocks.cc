// The dynamic linker takes the program's definition of a symbol before a library's (see crc32c.cc), and so gives the library the
// function here, which calls that of the library.
#include "kv/damaged_blocks.h"

#include <dlfcn.h>
#include <rocksdb/status.h>
#include <rocksdb/table.h>
#include <rocksdb/version.h>

#include <cstddef>
#include <string>

namespace lsmfs::kv {
namespace {

constinit thread_local std::uint64_t damaged_blocks = 0;

}  // namespace

std::uint64_t damaged_blocks_of_this_thread() { return damaged_blocks; }

}  // namespace lsmfs::kv

#if ROCKSDB_MAJOR < 8 || (ROCKSDB_MAJOR == 8 && ROCKSDB_MINOR < 3)
namespace rocksdb {

// As declared in RocksDB's table/block_based/reader_common.h, which is not installed.
__attribute__((visibility("default"))) Status VerifyBlockChecksum(ChecksumType type, const char* data, std::size_t size, const std::string& file,
                                                                  std::uint64_t offset) {
  using Function = Status (*)(ChecksumType, const char*, std::size_t, const std::string&, std::uint64_t);
  static const auto theirs = reinterpret_cast<Function>(
      dlsym(RTLD_NEXT, "_ZN7rocksdb19VerifyBlockChecksumENS_12ChecksumTypeEPKcmRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEm"));
  Status status = theirs(type, data, size, file, offset);
  if (!status.ok()) ++lsmfs::kv::damaged_blocks;
  return status;
}

}  // namespace rocksdb
#endif
