// kv/notice_logger: RocksDB's information log as one-line notices.
//
// RocksDB would otherwise write a LOG file; the volume holds none. Only warnings and errors pass.
// Threads: RocksDB logs from any thread; the notice function must allow that.
#pragma once

#include <rocksdb/env.h>

#include <functional>
#include <memory>
#include <string_view>

namespace lsmfs::kv {

std::shared_ptr<rocksdb::Logger> make_notice_logger(std::function<void(std::string_view)> notice);

}  // namespace lsmfs::kv
