// kv/apart: a table of an open database, opened once more apart from it.
//
// It is read through files and options of its own: no block comes from a cache, a part of the device that cannot be read stops
// nothing (FailStop), compactions do not wait for it (GiveWay), and what the database has set aside is seen as it is.
//
// Not thread-safe.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/sst_file_reader.h>

#include <memory>
#include <string>

#include "kv/fail_stop.h"
#include "kv/give_way.h"
#include "kv/set_aside.h"
#include "lsmfs/kv.h"

namespace lsmfs::kv {

class Apart {
 public:
  // All references must outlive it. Its reads fail once `stop` says so.
  Apart(Volume& volume, rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, Family family, const Stop& stop);

  // Errors of RocksDB, as it gives them; also those of reading a damaged index.
  rocksdb::Status open(const rocksdb::SstFileMetaData& table);
  rocksdb::SstFileReader& reader() { return *reader_; }
  rocksdb::ReadOptions read_options() const;
  bool cannot_be_read() const { return reads_.read_failures() + reads_.unreadable() > 0; }  // a part of the device
  SetAside& set_aside() { return set_aside_; }  // for itself alone

 private:
  FailStop reads_;
  GiveWay alone_;
  SetAside set_aside_;
  std::unique_ptr<rocksdb::Env> env_;
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::SstFileReader> reader_;
};

// A key between two others, about in the middle; or one of them.
std::string midpoint(const std::string& low, const std::string& high);

// All of a family, by their numbers.
std::vector<rocksdb::SstFileMetaData> tables_of(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle);

}  // namespace lsmfs::kv
