#include "kv/apart.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <utility>

#include "kv/file_system.h"
#include "kv/options.h"

namespace lsmfs::kv {
namespace {

using rocksdb::IOStatus;

// Its reads fail once somebody wants whoever reads to stop.
class StoppableFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  StoppableFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, const Stop& stop)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), stop_(stop) {}

  IOStatus Read(std::uint64_t offset, std::size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result, char* scratch,
                rocksdb::IODebugContext* debug) const override {
    if (stop_()) {
      *result = rocksdb::Slice(scratch, 0);
      return IOStatus::Aborted("stopped");
    }
    return target()->Read(offset, n, options, result, scratch, debug);
  }

 private:
  const Stop& stop_;
};

class StoppableFiles final : public rocksdb::FileSystemWrapper {
 public:
  StoppableFiles(const std::shared_ptr<rocksdb::FileSystem>& files, const Stop& stop) : FileSystemWrapper(files), stop_(stop) {}

  const char* Name() const override { return "lsmfs-scrub"; }

  IOStatus NewRandomAccessFile(const std::string& path, const rocksdb::FileOptions& options,
                               std::unique_ptr<rocksdb::FSRandomAccessFile>* result, rocksdb::IODebugContext* debug) override {
    IOStatus opened = target()->NewRandomAccessFile(path, options, result, debug);
    if (opened.ok()) *result = std::make_unique<StoppableFile>(std::move(*result), stop_);
    return opened;
  }

 private:
  const Stop& stop_;
};

}  // namespace

Apart::Apart(Volume& volume, rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, Family family, const Stop& stop)
    : reads_([](std::string_view) {}), alone_(system_clock()) {  // nothing waits there: it only reads
  auto files = make_file_system(volume, reads_, alone_, set_aside_, system_clock(), ByteCount{0});
  env_ = rocksdb::NewCompositeEnv(std::make_shared<StoppableFiles>(std::move(files), stop));
  options_ = db.GetOptions(handle);
  options_.env = env_.get();
  options_.info_log = nullptr;  // it wonders about tables that are opened without their database
  options_.table_factory = uncached_tables(family);
}

// A key between two others, about in the middle; or one of them.
std::string midpoint(const std::string& low, const std::string& high) {
  const auto differs = std::ranges::mismatch(low, high);
  const std::size_t common = static_cast<std::size_t>(differs.in1 - low.begin());
  const auto number = [common](const std::string& key) {
    std::uint64_t value = 0;
    for (std::size_t i = common; i < common + 8; ++i) value = value << 8 | (i < key.size() ? static_cast<std::uint8_t>(key[i]) : 0);
    return value;
  };
  std::string key = low.substr(0, common);
  put_be64(key, number(low) + (number(high) - number(low)) / 2);
  return key;
}

rocksdb::Status Apart::open(const rocksdb::SstFileMetaData& table) {
  reader_ = std::make_unique<rocksdb::SstFileReader>(options_);
  return reader_->Open(table.db_path + table.name);
}

rocksdb::ReadOptions Apart::read_options() const {
  return cursor_options({.lower = {}, .upper = {}, .readahead = ByteCount{2 * MiB}, .fill_cache = false});
}

std::vector<rocksdb::SstFileMetaData> tables_of(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(handle, &facts);
  std::vector<rocksdb::SstFileMetaData> tables;
  for (auto& level : facts.levels) tables.insert(tables.end(), level.files.begin(), level.files.end());
  std::ranges::sort(tables, {}, &rocksdb::SstFileMetaData::file_number);
  return tables;
}

}  // namespace lsmfs::kv
