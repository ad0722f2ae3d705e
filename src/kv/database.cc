#include "kv/database.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kv/batch.h"
#include "kv/env.h"
#include "kv/file_system.h"
#include "kv/guarded.h"
#include "kv/library.h"
#include "kv/notice_logger.h"
#include "kv/status.h"

namespace lsmfs::kv {
namespace {

using rocksdb::Status;

Status open_database(const rocksdb::DBOptions& options,
                     const std::vector<rocksdb::ColumnFamilyDescriptor>& families, bool read_only,
                     std::vector<rocksdb::ColumnFamilyHandle*>& handles, std::unique_ptr<rocksdb::DB>& db) {
  rocksdb::DB* raw = nullptr;
  Status status = read_only ? rocksdb::DB::OpenForReadOnly(options, kDirectory, families, &handles, &raw)
                            : rocksdb::DB::Open(options, kDirectory, families, &handles, &raw);
  db.reset(raw);
  return status;
}

// RocksDB reads these files as a whole; they have a few KiB, whatever a damaged volume says.
constexpr std::uint64_t kSmallFileMax = MiB;

Result<void> check_small_files(Volume& volume) {
  for (const std::string& name : volume.list()) {
    if (file_kind(name) != FileKind::small) continue;
    LSMFS_ASSIGN(const ByteCount size, volume.size_of(name));
    if (size.v > kSmallFileMax) return make_error(EUCLEAN, fmt::format("store: the file {} has {} bytes", name, size.v));
  }
  return {};
}

Error open_error(const Status& status, Volume& volume) {
  Error error = to_error(status, "open the store");
  // Whatever else RocksDB finds wrong while it opens its own files is damage to them.
  if (error.code != EIO && error.code != ENOMEM && error.code != ENOSPC && error.code != EROFS) error.code = EUCLEAN;
  if (error.code != EUCLEAN) return error;
  const auto last = library_of(volume);
  if (!last || *last <= Library::ours()) return error;
  return make_error(EPROTONOSUPPORT, fmt::format("open the store: it was last used by {}, and this program has {}; use one that has the former, or a newer one ({})",
                                                 last->text(), Library::ours().text(), error.context));
}

}  // namespace

// A store without its CURRENT file must not be taken for a new one: RocksDB would make an empty
// database and remove every table as unknown. What a crash in the middle of the first open leaves
// has neither tables nor logs.
Result<bool> holds_database(const Volume& volume) {
  for (const std::string& name : volume.list()) {
    if (name.starts_with(kSavedRows)) return make_error(EUCLEAN, "store: a repair has not come to its end; run it again");
  }
  if (volume.exists("CURRENT")) return true;
  for (const std::string& name : volume.list()) {
    if (name.ends_with(".sst") || name.ends_with(".log")) {
      return make_error(EUCLEAN, "store: the file CURRENT is missing, but there is " + name);
    }
  }
  return false;
}

Database::Database(Volume& volume, const Sizing& sizing, FailStop& fail_stop, GiveWay& give_way, const SetAside& set_aside, const Options& options)
    : volume_(volume),
      caches_(sizing.cache),
      env_(make_env(make_file_system(volume, fail_stop, give_way, set_aside, *options.clock, ByteCount{sizing.blocks_memtable + sizing.blocks_memtable / 16}),
                    options.merges, fail_stop, *options.clock)) {
  const OptionParts parts{env_.get(), make_notice_logger(options.notice), options.listener, caches_, options.statistics};
  options_ = db_options(sizing, parts, options.create);
  families_ = {{kNamesFamily, family_options(Family::names, sizing, parts)},
               {kBlocksFamily, family_options(Family::blocks, sizing, parts)}};
}

Result<void> Database::open(bool read_only) {
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  LSMFS_TRY(check_small_files(volume_));
  const Status status = guarded([&] { return open_database(options_, families_, read_only, handles, db_); });
  std::copy(handles.begin(), handles.end(), std::begin(handles_));
  if (!status.ok()) return open_error(status, volume_);
  for (const Family family : {Family::names, Family::blocks}) {
    if (handle(family)->GetID() != family_number(family)) {
      return make_error(EUCLEAN, "open the store: its families are not those of an lsmfs");
    }
  }
  return {};
}

Status Database::close() {
  if (!db_) return Status::OK();
  for (auto*& handle : handles_) {
    if (handle != nullptr) db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr)).PermitUncheckedError();
  }
  const Status status = db_->Close();
  db_.reset();
  return status;
}

namespace {

// Whether one of these numbers of a family is not 0, or not known.
bool is_any(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2], std::initializer_list<std::string> properties) {
  for (auto* handle : handles) {
    for (const std::string& property : properties) {
      std::uint64_t value = 0;
      if (!db.GetIntProperty(handle, property, &value) || value > 0) return true;
    }
  }
  return false;
}

using Properties = rocksdb::DB::Properties;

}  // namespace

bool is_busy(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  return is_running(db, handles) || is_any(db, handles, {Properties::kMemTableFlushPending, Properties::kCompactionPending});
}

bool is_flushing(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  return is_any(db, handles, {Properties::kNumRunningFlushes});
}

bool is_running(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  return is_flushing(db, handles) || is_any(db, handles, {Properties::kNumRunningCompactions});
}

}  // namespace lsmfs::kv
