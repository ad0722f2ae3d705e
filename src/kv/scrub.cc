#include "kv/scrub.h"

#include <utility>

#include "kv/apart.h"
#include "kv/guarded.h"
#include "kv/status.h"
#include "kv/verify.h"

namespace lsmfs::kv {
namespace {

using rocksdb::Status;

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
  Apart apart(volume, db, handle, family, stop);
  StoreScrubStep::Damage damage{{}, StoreScrubStep::Rows{family, table.smallestkey, table.largestkey}};
  const Status status = guarded([&] {
    if (const Status opened = apart.open(table); !opened.ok()) return opened;
    const Status verified = apart.reader().VerifyChecksum(apart.read_options());
    if (!verified.ok() && !stop()) damage.rows = rows_around_damage(apart.reader(), apart.read_options(), family);
    return verified;
  });
  if (stop()) return make_error(EINTR, "scrub");
  if (status.IsMemoryLimit()) return to_error(status, "scrub");
  if (!status.ok() && is_live(db, handle, table.name)) {
    const char* what = apart.cannot_be_read() ? " cannot be read: " : " is damaged: ";
    damage.line = "table " + table.name.substr(1) + what + status.ToString();
    step.damage.push_back(std::move(damage));
    step.damaged_table = table.file_number;
  }
  step.read = ByteCount{table.size};
  range.next = tables.size() > 1 ? tables[1].file_number : range.end;
  for (std::size_t i = 1; i < tables.size(); ++i) step.left.v += tables[i].size;
  return step;
}

}  // namespace lsmfs::kv
