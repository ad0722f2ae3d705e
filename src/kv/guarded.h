// RocksDB throws where memory for a length cannot be had that it read from a damaged file. In threads of lsmfs that is an
// error like others; in RocksDB's own nothing can be done about it (docs/limits.md).
#pragma once

#include <rocksdb/status.h>

#include <new>
#include <stdexcept>

namespace lsmfs::kv {

template <class Call>
rocksdb::Status guarded(const Call& call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return rocksdb::Status::MemoryLimit("no memory");
  } catch (const std::length_error&) {
    return rocksdb::Status::Corruption("an impossible length");
  }
}

}  // namespace lsmfs::kv
