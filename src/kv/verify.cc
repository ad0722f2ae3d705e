#include "kv/verify.h"

#include <rocksdb/sst_file_reader.h>

#include "kv/guarded.h"
#include "kv/options.h"

namespace lsmfs::kv {

bool is_live(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const std::string& name) {
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(family, &facts);
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      if (table.name == name) return true;
    }
  }
  return false;
}

Result<std::vector<DamagedTable>> damaged_tables(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const FailStop& fail_stop,
                                                 const std::function<void(ByteCount)>& progress) {
  rocksdb::Options options = db.GetOptions(family);
  options.info_log = nullptr;  // it wonders about tables that are opened without their database
  const rocksdb::ReadOptions read = cursor_options({.readahead = ByteCount{2 * MiB}, .fill_cache = false});
  rocksdb::ColumnFamilyMetaData facts;
  db.GetColumnFamilyMetaData(family, &facts);
  std::vector<DamagedTable> damaged;
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      const std::uint64_t read_failures = fail_stop.read_failures();
      rocksdb::SstFileReader reader(options);
      const rocksdb::Status status = guarded([&] {
        const rocksdb::Status opened = reader.Open(table.db_path + table.name);
        return opened.ok() ? reader.VerifyChecksum(read) : opened;
      });
      if (read_failures != fail_stop.read_failures()) return make_error(EIO, "verify: a read of the device failed");
      if (progress) progress(ByteCount{table.size});
      // A compaction may have replaced it meanwhile.
      if (!status.ok() && is_live(db, family, table.name)) {
        damaged.push_back({table.file_number, table.name.substr(1), table.smallestkey, table.largestkey, status.ToString()});
      }
    }
  }
  return damaged;
}

}  // namespace lsmfs::kv
