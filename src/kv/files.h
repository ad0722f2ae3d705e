// kv/files: the file objects of kv/file_system.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <string_view>

#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/set_aside.h"
#include "lsmfs/clock.h"
#include "lsmfs/volume.h"

namespace lsmfs::kv {

// Remembers the error for good; gives what RocksDB may see of it.
rocksdb::IOStatus stop_writing(FailStop& fail_stop, const Error& error);

struct WritableFileOptions {
  bool is_wal = false;    // pretends success after a failure
  bool is_table = false;  // reserves its space before the first byte
  bool is_bulk = false;   // one that waits for space no longer than a compaction, and lasts
  ByteCount flush_size;   // for tables of which RocksDB announces nothing
};

std::unique_ptr<rocksdb::FSWritableFile> make_writable_file(std::shared_ptr<FileWriter> writer, Volume& volume,
                                                            FailStop& fail_stop, GiveWay& give_way, Clock& clock,
                                                            const WritableFileOptions& options);
std::unique_ptr<rocksdb::FSSequentialFile> make_sequential_file(std::unique_ptr<FileReader> reader,
                                                                FailStop& fail_stop);
// `table`: its number; 0: it is none.
std::unique_ptr<rocksdb::FSRandomAccessFile> make_random_access_file(std::unique_ptr<FileReader> reader, FailStop& fail_stop,
                                                                     GiveWay& give_way, const SetAside& set_aside, std::uint64_t table);

}  // namespace lsmfs::kv
