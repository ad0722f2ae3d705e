#include "kv/scrub.h"

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/sst_file_reader.h>

#include <algorithm>
#include <utility>

#include "kv/file_system.h"
#include "kv/guarded.h"
#include "kv/options.h"
#include "kv/status.h"
#include "kv/verify.h"

namespace lsmfs::kv {
namespace {

using rocksdb::IOStatus;
using rocksdb::Status;

// Its reads fail once somebody wants the scrub to stop.
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

// The rows that cannot be read lie between the last that can be reached from the beginning and the last from the end. nullopt:
// all can be, so the damage lies elsewhere.
std::optional<StoreScrubStep::Rows> rows_around_damage(rocksdb::SstFileReader& reader, const rocksdb::ReadOptions& read,
                                                       Family family) {
  StoreScrubStep::Rows rows{family, {}, {}};
  const std::unique_ptr<rocksdb::Iterator> up(reader.NewIterator(read)), down(reader.NewIterator(read));
  for (up->SeekToFirst(); up->Valid(); up->Next()) rows.after = up->key().ToString();
  if (up->status().ok()) return std::nullopt;
  for (down->SeekToLast(); down->Valid() && down->key().compare(rows.after) > 0; down->Prev()) rows.before = down->key().ToString();
  return rows;
}

std::vector<rocksdb::SstFileMetaData> tables_of(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(handle, &facts);
  std::vector<rocksdb::SstFileMetaData> tables;
  for (auto& level : facts.levels) tables.insert(tables.end(), level.files.begin(), level.files.end());
  std::ranges::sort(tables, {}, &rocksdb::SstFileMetaData::file_number);
  return tables;
}

}  // namespace

ByteCount table_bytes(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle) {
  std::uint64_t bytes = 0;
  db.GetIntProperty(handle, rocksdb::DB::Properties::kLiveSstFilesSize, &bytes);
  return ByteCount{bytes};
}

Result<StoreScrubStep> scrub_next_table(Volume& volume, rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, Family family,
                                        ScrubRange& range, const Stop& stop) {
  std::vector<rocksdb::SstFileMetaData> tables = tables_of(db, handle);
  if (range.end == 0) range = {1, tables.empty() ? 1 : tables.back().file_number + 1};
  std::erase_if(tables, [&](const auto& one) { return one.file_number < range.next || one.file_number >= range.end; });
  StoreScrubStep step;
  if (tables.empty()) {
    range.next = range.end;
    return step;
  }

  const rocksdb::SstFileMetaData& table = tables.front();
  FailStop reads([](std::string_view) {});
  GiveWay alone(system_clock());  // nothing waits here: it only reads
  const std::unique_ptr<rocksdb::Env> env(
      rocksdb::NewCompositeEnv(std::make_shared<StoppableFiles>(make_file_system(volume, reads, alone, system_clock(), ByteCount{0}), stop)));
  rocksdb::Options options = db.GetOptions(handle);
  options.env = env.get();
  options.info_log = nullptr;  // it wonders about tables that are opened without their database
  options.table_factory = uncached_tables(family);
  const rocksdb::ReadOptions read =
      cursor_options({.lower = {}, .upper = {}, .readahead = ByteCount{2 * MiB}, .fill_cache = false});
  StoreScrubStep::Damage damage{{}, StoreScrubStep::Rows{family, table.smallestkey, table.largestkey}};
  const Status status = guarded([&] {
    rocksdb::SstFileReader reader(options);
    const Status opened = reader.Open(table.db_path + table.name);
    if (!opened.ok()) return opened;
    const Status verified = reader.VerifyChecksum(read);
    if (!verified.ok() && !stop()) damage.rows = rows_around_damage(reader, read, family);
    return verified;
  });
  if (stop()) return make_error(EINTR, "scrub");
  if (status.IsMemoryLimit()) return to_error(status, "scrub");
  if (!status.ok() && is_live(db, handle, table.name)) {
    const char* what = reads.read_failures() > 0 ? " cannot be read: " : " is damaged: ";
    damage.line = "table " + table.name.substr(1) + what + status.ToString();
    step.damage.push_back(std::move(damage));
  }
  step.read = ByteCount{table.size};
  range.next = tables.size() > 1 ? tables[1].file_number : range.end;
  for (std::size_t i = 1; i < tables.size(); ++i) step.left.v += tables[i].size;
  return step;
}

}  // namespace lsmfs::kv
