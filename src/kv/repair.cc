// Store::repair(): a store of which everything can be read, from one with damaged tables or a damaged list of them.
//
// Tables are never changed, so a damaged one must go. What can be read of the rows where it lies, from all tables, is first
// saved to a file; then it is taken off the list; then the saved rows are taken in above all others, and hide what lay
// under them. Where nothing could be read, rows of other tables stay: most are right, and which are too old nobody knows.
// While such a file is there, the store cannot be opened, and another repair goes on from there.
#include <fmt/format.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/utilities/ldb_cmd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "kv/batch.h"
#include "kv/apart.h"
#include "kv/database.h"
#include "kv/file_system.h"
#include "kv/guarded.h"
#include "kv/lost.h"
#include "kv/options.h"
#include "kv/status.h"
#include "kv/verify.h"

namespace lsmfs {
namespace {

using kv::DamagedTable;
using rocksdb::Slice;
using rocksdb::Status;

constexpr std::string_view kCurrent = "CURRENT", kManifest = "MANIFEST-";

// Writes to a table all rows of a range that a cursor can read, in order, and hides what lies under them. Where it cannot
// read on, it looks for places further on where it can.
class Salvage {
 public:
  using Gap = std::pair<std::string, std::string>;  // the rows beside it; "": there is none

  // From lower to before upper.
  Salvage(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, rocksdb::SstFileWriter& table, std::string lower, std::string upper)
      : db_(db), family_(family), table_(table), lower_(std::move(lower)), upper_(std::move(upper)) {}

  // EIO, ENOSPC: of what is written. ENOMEM, EUCLEAN: for an absurd length that the damage looks like.
  Result<void> run() {
    return kv::to_result(kv::guarded([this] {
      save();
      return status_;
    }), "save rows");
  }

  const std::vector<Gap>& gaps() const { return gaps_; }
  bool empty() const { return rows_ == 0; }

 private:
  static constexpr int kProbes = 8;  // halvings of a gap

  void save() {
    std::optional<std::string> before;
    restart();
    for (at_->SeekToLast(); at_->Valid(); at_->Prev()) before = at_->key().ToString();
    restart();
    at_->SeekToFirst();
    const std::string after = copy(upper_);
    if (at_->status().ok()) {
      hide(lower_, upper_);
    } else {
      if (!after.empty()) hide(lower_, after + '\0');
      if (before && *before > after) {
        look_between(after, *before, kProbes);
        seek(*before);
        copy(upper_);
        hide(*before, upper_);
      } else {
        add_gap(after, "");
      }
    }
  }

  // Rows lie between `low` and `high`, perhaps, and nothing of them is known.
  void look_between(const std::string& low, const std::string& high, int probes) {
    const std::string middle = kv::midpoint(low, high);
    if (probes == 0 || middle <= low || middle >= high) return add_gap(low, high);
    seek(middle);
    if (!at_->Valid() && !at_->status().ok()) {
      look_between(low, middle, probes - 1);
      return look_between(middle, high, probes - 1);
    }
    if (!at_->Valid() || at_->key().compare(high) >= 0) return look_between(low, middle, probes - 1);
    std::string bottom;
    for (; at_->Valid() && at_->key().compare(low) > 0; at_->Prev()) bottom = at_->key().ToString();
    if (!at_->Valid()) look_between(low, bottom, probes - 1);
    seek(bottom);
    const std::string top = copy(high);
    if (top.empty()) return add_gap(bottom, high);
    hide(bottom, top + '\0');
    if (!at_->Valid()) look_between(top, high, probes - 1);
  }

  // From where the cursor is, upwards to before `end`; gives the last key.
  std::string copy(const std::string& end) {
    std::string last;
    for (; at_->Valid() && at_->key().compare(end) < 0 && status_.ok(); at_->Next()) {
      status_ = table_.Put(at_->key(), at_->value());
      last = at_->key().ToString();
      ++rows_;
    }
    return last;
  }

  void hide(const std::string& from, const std::string& to) {
    if (status_.ok()) status_ = table_.DeleteRange(from, to);
  }

  void add_gap(const std::string& after, const std::string& before) {
    if (!gaps_.empty() && gaps_.back().second == after) {
      gaps_.back().second = before;  // they were taken apart in the middle of nothing
    } else {
      gaps_.emplace_back(after, before);
    }
  }

  // One that has failed may go on to fail where it need not.
  void restart() {
    rocksdb::ReadOptions read = kv::cursor_options({.lower = {}, .upper = {}, .readahead = ByteCount{2 * MiB}, .fill_cache = false});
    read.iterate_lower_bound = &lower_slice_;
    read.iterate_upper_bound = &upper_slice_;
    at_.reset(db_.NewIterator(read, family_));
  }
  void seek(const std::string& key) {
    if (!at_->status().ok()) restart();
    at_->Seek(key);
  }

  rocksdb::DB& db_;
  rocksdb::ColumnFamilyHandle* const family_;
  rocksdb::SstFileWriter& table_;
  const std::string lower_, upper_;
  const Slice lower_slice_{lower_}, upper_slice_{upper_};
  std::unique_ptr<rocksdb::Iterator> at_;
  Status status_;
  std::uint64_t rows_ = 0;
  std::vector<Gap> gaps_;
};

class Repair {
 public:
  Repair(Volume& volume, const StoreOptions& options)
      : volume_(volume),
        sizing_(kv::Sizing::plan(volume.usage(), options.cache)),
        fail_stop_(options.notice),
        give_way_(*options.clock),
        database_(volume, sizing_, fail_stop_, give_way_, set_aside_,
                  {.create = false, .listener = nullptr, .notice = options.notice, .clock = options.clock}) {
    // A table that cannot even be opened must not keep the others from it, and nothing may be compacted with it.
    database_.options().paranoid_checks = false;
    for (auto& family : database_.families()) family.options.disable_auto_compactions = true;
  }

  Result<StoreRepair> run();

 private:
  Result<void> give_up_what_is_lost();
  Result<void> find_manifest();
  Result<void> rebuild();
  Result<void> save_rows(Family family, const DamagedTable& table);
  Result<void> take_in_saved_rows();
  Result<void> take_off_the_list(const DamagedTable& table);
  Result<void> close();
  // Tables of a family with keys from `first` to `last`.
  std::vector<rocksdb::SstFileMetaData> overlapping(Family family, std::string_view first, std::string_view last) const;
  // Whether others have rows there, which may be older.
  bool others_between(Family family, const DamagedTable& table, std::string_view after, std::string_view before) const;
  // Whether a copy of all tables that overlap a damaged one has room.
  bool fits(Family family, const DamagedTable& table) const;

  Volume& volume_;
  const kv::Sizing sizing_;
  kv::FailStop fail_stop_;
  kv::GiveWay give_way_;
  kv::SetAside set_aside_;  // nothing: damaged tables are to be found
  kv::Database database_;
  StoreRepair report_;
};

Result<StoreRepair> Repair::run() {
  LSMFS_TRY(find_manifest());
  Result<void> opened = database_.open(/*read_only=*/false);
  if (!opened && opened.error().code == EUCLEAN) {
    database_.close().PermitUncheckedError();
    report_.lines.push_back("the list of tables is damaged (" + opened.error().context + "): made again from the tables");
    LSMFS_TRY(rebuild());
    opened = database_.open(/*read_only=*/false);
  }
  LSMFS_TRY(fail_stop_.check());
  LSMFS_TRY(opened);
  LSMFS_TRY(take_in_saved_rows());
  LSMFS_TRY(give_up_what_is_lost());

  std::vector<DamagedTable> damaged;
  for (const Family family : {Family::names, Family::blocks}) {
    LSMFS_ASSIGN(const auto found, kv::damaged_tables(database_.db(), database_.handle(family), fail_stop_));
    for (const DamagedTable& table : found) {
      LSMFS_TRY(save_rows(family, table));
      damaged.push_back(table);
    }
  }
  LSMFS_TRY(close());
  if (damaged.empty()) return std::move(report_);
  for (const DamagedTable& table : damaged) LSMFS_TRY(take_off_the_list(table));
  LSMFS_TRY(database_.open(/*read_only=*/false));
  LSMFS_TRY(take_in_saved_rows());
  LSMFS_TRY(close());
  return std::move(report_);
}

Result<void> Repair::close() {
  LSMFS_TRY(fail_stop_.check());
  if (const Status status = database_.close(); !status.ok()) return kv::to_error(status, "close the store");
  return volume_.commit();
}

// What a store could not read while it was in use, and kept apart (kv/lost, kv/set_aside): rows of older tables come to light there.
Result<void> Repair::give_up_what_is_lost() {
  std::string end(kv::kLostPrefix);
  ++end.back();
  bool any = false;
  const Status seen = kv::for_each_row(database_.db(), database_.handle(Family::names), kv::kLostPrefix, end, [&](auto, auto) {
    any = true;
    return Status::OK();
  });
  if (!any && seen.ok()) return {};
  kv::LostRanges lost;
  if (!kv::guarded([&] { return lost.load(database_.db(), database_.handle(Family::names)); }).ok()) report_.lines.push_back("the list of what is lost is damaged");
  for (const LostRange& range : lost.all()) report_.lost.push_back({range.family, range.from, range.to, /*aged=*/true});
  rocksdb::WriteBatch rows;
  (void)rows.DeleteRange(Slice(kv::kLostPrefix.data(), kv::kLostPrefix.size()), end);
  Status status = database_.db().Write(kv::write_options(), &rows);
  if (status.ok()) status = database_.db().SyncWAL();
  LSMFS_TRY(fail_stop_.check());
  if (!status.ok()) return kv::to_error(status, "give up what is lost");
  if (any && lost.all().empty()) report_.lines.push_back("what the store noted about damage is erased");
  return {};
}

// CURRENT holds the name of the manifest in use. There is one manifest, or two after a crash while it was replaced.
Result<void> Repair::find_manifest() {
  const std::string newest = kv::newest_file(volume_, kManifest);
  if (newest.empty()) return {};
  if (volume_.exists(kCurrent)) {
    LSMFS_ASSIGN(const auto reader, volume_.open_reader(kCurrent));
    std::string text(std::min<std::uint64_t>(reader->size().v, 100), '\0');
    LSMFS_TRY(reader->read(ByteOffset{0}, {reinterpret_cast<std::byte*>(text.data()), text.size()}));
    if (text.ends_with('\n') && text.starts_with(kManifest) && volume_.exists(text.substr(0, text.size() - 1))) return {};
  }
  const std::string fresh = std::string(kCurrent) + ".repaired";
  LSMFS_ASSIGN(const auto writer, volume_.create(fresh, FileKind::small));
  LSMFS_TRY(writer->append(as_bytes(newest + "\n")));
  LSMFS_TRY(writer->sync());
  LSMFS_TRY(writer->close());
  LSMFS_TRY(volume_.rename(fresh, kCurrent));
  LSMFS_TRY(volume_.commit());
  report_.lines.push_back("the file CURRENT was damaged: written again");
  return {};
}

Result<void> Repair::rebuild() {
  std::vector<std::string> logs;
  for (const std::string& name : volume_.list()) {
    if (name.ends_with(".log")) logs.push_back(name);
  }
  rocksdb::DBOptions options = database_.options();
  options.db_paths.resize(1);  // it would find each table in each of them
  const Status status = kv::guarded([&] { return rocksdb::RepairDB(kv::kDirectory, options, database_.families()); });
  LSMFS_TRY(fail_stop_.check());
  if (!status.ok()) return make_error(EUCLEAN, kv::to_error(status, "repair the store").message());
  // Their rows are in tables now.
  for (const std::string& name : logs) {
    if (volume_.exists(name)) LSMFS_TRY(volume_.remove(name));
  }
  return volume_.commit();
}

std::vector<rocksdb::SstFileMetaData> Repair::overlapping(Family family, std::string_view first, std::string_view last) const {
  rocksdb::ColumnFamilyMetaData facts;
  database_.db().GetColumnFamilyMetaData(database_.handle(family), &facts);
  std::vector<rocksdb::SstFileMetaData> found;
  for (const auto& level : facts.levels) {
    for (const auto& table : level.files) {
      if (table.smallestkey <= last && table.largestkey >= first) found.push_back(table);
    }
  }
  return found;
}

bool Repair::fits(Family family, const DamagedTable& table) const {
  std::uint64_t bytes = 0;
  for (const auto& other : overlapping(family, table.first, table.last)) bytes += other.size;
  // Taking it in copies what has been written.
  return 2 * kv::on_volume(bytes + bytes / 8) < volume_.usage().table_free.v;
}

bool Repair::others_between(Family family, const DamagedTable& table, std::string_view after, std::string_view before) const {
  const auto found = overlapping(family, after, before);
  return std::ranges::any_of(found, [&](const auto& other) { return other.file_number != table.number; });
}

Result<void> Repair::save_rows(Family family, const DamagedTable& damaged) {
  const auto give_up = [&] {
    report_.lines.push_back(damaged.line() + ": taken away");
    report_.lost.push_back({family, damaged.first, damaged.last, /*aged=*/true});
  };
  if (!fits(family, damaged)) {
    give_up();
    return {};
  }
  const std::string name = fmt::format("{}{}-{}.sst", kv::kSavedRows, kv::family_number(family), damaged.number);
  rocksdb::Options options(database_.options(), database_.families()[static_cast<std::size_t>(family)].options);
  auto* const handle = database_.handle(family);
  rocksdb::SstFileWriter table(rocksdb::EnvOptions(), options, handle);
  if (const Status status = table.Open(fmt::format("{}/{}", kv::kDirectory, name)); !status.ok()) return kv::to_error(status, "save rows");
  Salvage salvage(database_.db(), handle, table, damaged.first, damaged.last + '\0');
  LSMFS_TRY(salvage.run());
  LSMFS_TRY(fail_stop_.check());
  if (salvage.empty() && !salvage.gaps().empty()) {
    give_up();
    return volume_.remove(name);
  }
  for (const auto& [after, before] : salvage.gaps()) {
    const bool aged = others_between(family, damaged, after.empty() ? damaged.first : after, before.empty() ? damaged.last : before);
    report_.lost.push_back({family, after, before, aged});
  }
  if (const Status status = table.Finish(); !status.ok()) return kv::to_error(status, "save rows");
  report_.lines.push_back(damaged.line() + ": replaced by another with the rows that can be read");
  return {};
}

Result<void> Repair::take_in_saved_rows() {
  std::vector<rocksdb::LiveFileMetaData> tables;
  database_.db().GetLiveFilesMetaData(&tables);
  for (const std::string& name : volume_.list()) {
    unsigned family = 0;
    unsigned long long number = 0;
    if (!name.starts_with(kv::kSavedRows)) continue;
    if (std::sscanf(name.c_str() + kv::kSavedRows.size(), "%u-%llu", &family, &number) != 2 || family > 1) continue;
    // While the damaged table is on the list, its rows are not all saved, or will be again.
    if (std::ranges::none_of(tables, [&](const auto& table) { return table.file_number == number; })) {
      rocksdb::IngestExternalFileOptions ingest;
      ingest.write_global_seqno = false;  // tables cannot be written in place
      const Status status = database_.db().IngestExternalFile(database_.handle(static_cast<Family>(family)),
                                                              {fmt::format("{}/{}", kv::kDirectory, name)}, ingest);
      LSMFS_TRY(fail_stop_.check());
      if (!status.ok()) return kv::to_error(status, "take in saved rows");
    }
    LSMFS_TRY(volume_.remove(name));
  }
  return volume_.commit();
}

// As `ldb unsafe_remove_sst_file` does, on the database that is closed.
Result<void> Repair::take_off_the_list(const DamagedTable& table) {
  const std::vector<std::string> words = {fmt::format("--db={}", kv::kDirectory), "unsafe_remove_sst_file", std::to_string(table.number)};
  rocksdb::Options options(database_.options(), database_.families()[0].options);
  const std::unique_ptr<rocksdb::LDBCommand> command(
      rocksdb::LDBCommand::InitFromCmdLineArgs(words, options, rocksdb::LDBOptions(), &database_.families()));
  if (!command) return make_error(EUCLEAN, "this RocksDB cannot take a table off its list");
  command->Run();
  LSMFS_TRY(fail_stop_.check());
  auto state = command->GetExecuteState();
  if (state.IsFailed()) return make_error(EUCLEAN, state.ToString());
  return {};
}

}  // namespace

Result<StoreRepair> Store::repair(Volume& volume, const StoreOptions& options) {
  if (!volume.writable()) return make_error(EROFS, "store: the volume is read-only");
  return Repair(volume, options).run();
}

}  // namespace lsmfs
