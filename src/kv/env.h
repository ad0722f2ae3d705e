// kv/env: what RocksDB sees of the system: a file system, and a clock.
//
// Its threads sleep by the store's clock: for a second after a flush or a compaction that has failed, before they try again. Once
// writing has stopped nothing is tried again, and they do not sleep.
// A compaction that is scheduled waits for its turn (kv/merges.h) before RocksDB chooses what it takes in.
// What it is not: all of its time. Its conditions and its statistics go by the system's clock.
#pragma once

#include <rocksdb/env.h>

#include <memory>

#include "kv/fail_stop.h"
#include "kv/merges.h"
#include "lsmfs/clock.h"

namespace lsmfs::kv {

// All references must outlive it. merges == nullptr: they need not wait. RocksDB's threads belong to the process, and may hold it a
// moment longer than the database is there.
std::unique_ptr<rocksdb::Env> make_env(const std::shared_ptr<rocksdb::FileSystem>& files, std::shared_ptr<Merges> merges, const FailStop& fail_stop,
                                       Clock& clock);

}  // namespace lsmfs::kv
