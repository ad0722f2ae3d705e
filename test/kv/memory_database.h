// A database in memory with the options of the store, on its blocks, without the store and its volume.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/listener.h>

#include <functional>
#include <latch>
#include <memory>
#include <utility>
#include <vector>

#include "kv/file_system.h"
#include "kv/options.h"

namespace lsmfs::kv_test {

class MemoryDatabase {
 public:
  explicit MemoryDatabase(std::shared_ptr<rocksdb::EventListener> listener,
                          const std::function<void(rocksdb::DBOptions&, rocksdb::ColumnFamilyOptions&)>& change = [](auto&, auto&) {}) {
    VolumeUsage usage;
    usage.table_total = usage.table_free = ByteCount{448 * MiB};
    usage.fixed_total = usage.fixed_free = ByteCount{32 * MiB};
    sizing_ = kv::Sizing::plan(usage, ByteCount{64 * MiB});
    const kv::OptionParts parts{env_.get(), nullptr, std::move(listener), kv::Caches(sizing_.cache)};
    rocksdb::DBOptions options = kv::db_options(sizing_, parts, true);
    options.use_direct_reads = false;
    rocksdb::ColumnFamilyOptions family = kv::family_options(Family::blocks, sizing_, parts);
    change(options, family);
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* db = nullptr;
    must(rocksdb::DB::Open(options, kv::kDirectory, {{kv::kNamesFamily, family}}, &handles, &db));
    db_.reset(db);
    handle_ = handles.front();
  }
  ~MemoryDatabase() {
    must(db_->DestroyColumnFamilyHandle(handle_));
    must(db_->Close());
  }
  MemoryDatabase(const MemoryDatabase&) = delete;
  MemoryDatabase& operator=(const MemoryDatabase&) = delete;

  rocksdb::DB& operator*() { return *db_; }
  rocksdb::DB* operator->() { return db_.get(); }
  rocksdb::ColumnFamilyHandle* handle() { return handle_; }
  const kv::Sizing& sizing() const { return sizing_; }

  std::vector<rocksdb::SstFileMetaData> tables_of(int level) {
    rocksdb::ColumnFamilyMetaData facts;
    db_->GetColumnFamilyMetaData(&facts);
    return facts.levels[static_cast<std::size_t>(level)].files;
  }
  // Until what was to be compacted before the call has been looked at.
  void await_background() {
    const int threads = env_->GetBackgroundThreads(rocksdb::Env::LOW);
    const auto all = std::make_shared<std::latch>(threads + 1);
    const auto meet = [](void* place) {
      const std::unique_ptr<std::shared_ptr<std::latch>> latch(static_cast<std::shared_ptr<std::latch>*>(place));
      (*latch)->arrive_and_wait();
    };
    for (int i = 0; i < threads; ++i) env_->Schedule(meet, new std::shared_ptr<std::latch>(all), rocksdb::Env::LOW);
    all->arrive_and_wait();
  }
  bool is(const std::string& property) {
    std::uint64_t value = 0;
    return db_->GetIntProperty(property, &value) && value > 0;
  }

  static void must(const rocksdb::Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

 private:
  std::unique_ptr<rocksdb::Env> env_{rocksdb::NewMemEnv(rocksdb::Env::Default())};
  kv::Sizing sizing_;
  std::unique_ptr<rocksdb::DB> db_;
  rocksdb::ColumnFamilyHandle* handle_ = nullptr;
};

}  // namespace lsmfs::kv_test
