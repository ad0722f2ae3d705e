// kv/file_system: a volume as a rocksdb::FileSystem.
//
// All files live in one directory, kDirectory; a path is that directory, a slash and a name of the
// volume. What it is not: it has no other directories, no links, no locks (the device is locked by
// whoever opened it) and no log file. Blobs are not among its files.
//
// Promises to RocksDB, whose contract for file systems is half documentation and half source:
//   1. Writable files say use_direct_io() false, though the volume writes with O_DIRECT: RocksDB
//      skips Sync() on files that say true. Random access files say true, so that RocksDB gives
//      aligned buffers and the volume reads into them without a copy.
//   2. A missing file is NotFound, never another error.
//   3. After any error of a write, a sync, a name change, or a read that stays bad, nothing is
//      written any more (FailStop). Log files then pretend success: RocksDB 7.8 aborts the process
//      when a log is used again after an error (an assertion in its WritableFileWriter), so the
//      store asks FailStop after each write and sync instead. Tables and the manifest report.
//   4. RocksDB is never told "no space": that would start its own recovery, which this library
//      version does not survive. FailStop keeps the true code. A compaction that finds no space is told of a passing error
//      (kSpaceLimit, retryable), which stops nothing: RocksDB removes what it wrote and begins again later.
//
// Threads: as rocksdb::FileSystem demands; Sync and Append of one file may run at the same time.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string>

#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/set_aside.h"
#include "lsmfs/clock.h"
#include "lsmfs/volume.h"

namespace lsmfs::kv {

inline constexpr const char* kDirectory = "/lsmfs";

// What a file is for, by its name.
FileKind file_kind(std::string_view name);

// The name with the greatest number among those that begin with `prefix` ("OPTIONS-"); "": there is none.
std::string newest_file(const Volume& volume, std::string_view prefix);

// All references must outlive it and every file it gave. `clock`: by which a table waits for space. `flush_size`: how large
// the table of one flushed memtable gets at most; RocksDB announces the size of all other tables.
std::shared_ptr<rocksdb::FileSystem> make_file_system(Volume& volume, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside,
                                                      Clock& clock, ByteCount flush_size);

}  // namespace lsmfs::kv
