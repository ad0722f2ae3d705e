#include "kv/quarantine.h"

#include <fmt/format.h>
#include <rocksdb/experimental.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <set>

#include "kv/apart.h"
#include "kv/compact.h"
#include "kv/guarded.h"
#include "kv/library_bytes.h"
#include "kv/options.h"
#include "kv/patch.h"
#include "kv/status.h"

namespace lsmfs::kv {
namespace {

using rocksdb::Slice;
using rocksdb::SstFileMetaData;
using rocksdb::Status;

constexpr int kLooks = 10;  // at tables that change meanwhile
constexpr std::uint64_t kBlockLeast = 8, kBlockMost = 64 * MiB;  // indexes are the largest
constexpr std::size_t kLinesMost = 8;           // about one table

std::string row_key(const TableBlock& block) {
  std::string key(kSetAsidePrefix);
  put_be64(key, block.table);
  put_be64(key, block.offset);
  return key;
}

void put_rows(rocksdb::WriteBatch& batch, const std::vector<TableBlock>& blocks) {
  for (const TableBlock& block : blocks) {
    std::string size;
    put_varint(size, block.size);
    (void)batch.Put(row_key(block), size);
  }
}

// How a table is told from others by its properties, which is all that a reader's filter is given.
using Identity = std::pair<std::string, std::uint64_t>;
Identity identity(const rocksdb::TableProperties& table) { return {table.db_session_id, table.orig_file_number}; }

std::vector<std::uint64_t> numbers(const std::vector<SstFileMetaData>& tables) {
  std::vector<std::uint64_t> numbers;
  for (const auto& table : tables) numbers.push_back(table.file_number);
  return numbers;
}

// For the rows of a table and of memory, through the database. nullopt: the table has gone.
Result<std::optional<rocksdb::ReadOptions>> reading_alone(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const SstFileMetaData& table) {
  rocksdb::TablePropertiesCollection properties;
  if (const Status status = db.GetPropertiesOfAllTables(handle, &properties); !status.ok()) return to_error(status, "tables");
  const auto found = properties.find(table.db_path + table.name);
  if (found == properties.end()) return std::optional<rocksdb::ReadOptions>();
  rocksdb::ReadOptions read = kv::read_options();
  read.table_filter = [own = identity(*found->second)](const rocksdb::TableProperties& one) { return identity(one) == own; };
  return std::optional(std::move(read));
}

}  // namespace

Status Quarantine::load(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* const (&handles)[2]) {
  db_ = &db;
  std::copy(std::begin(handles), std::end(handles), std::begin(handles_));
  std::string end(kSetAsidePrefix);
  ++end.back();
  return for_each_row(db, handle_of(Family::names), kSetAsidePrefix, end, [this](std::string_view row, std::string_view size) {
    Reader key(row.substr(kSetAsidePrefix.size())), value(size);
    TableBlock block;
    block.table = key.be64();
    block.offset = key.be64();
    block.size = value.varint();
    if (!key.ok() || !key.at_end() || !value.ok() || !value.at_end() || block.size < kBlockLeast || block.size > kBlockMost) {
      return Status::Corruption("a row about a damaged block is malformed");
    }
    parts_.set_aside.add(block);
    return Status::OK();
  });
}

void Quarantine::start() {
  const MutexLock lock(mutex_);
  stop_ = false;
  takes_ = true;
  if (!reported_.empty()) begin();
}

void Quarantine::stop() {
  std::thread ended;
  {
    const MutexLock lock(mutex_);
    takes_ = false;
    stop_ = true;
    ended = std::move(thread_);
    wake_.notify_all();
  }
  if (ended.joinable()) ended.join();
}

bool Quarantine::report(const Status& status) {
  const auto block = damaged_block(status);
  if (!block || parts_.set_aside.has(*block)) return false;
  report_table(block->table);
  return true;
}

void Quarantine::report_table(std::uint64_t number) {
  const MutexLock lock(mutex_);
  if (!takes_) return;
  reported_.insert(number);
  begin();
}

void Quarantine::begin() {
  if (!thread_.joinable()) thread_ = named_thread("lsmfs-quarant", [this] { run(); });
  wake_.notify_all();
}

bool Quarantine::idle() const {
  const MutexLock lock(mutex_);
  return is_idle();
}

void Quarantine::finish() {
  const Waiting waiting("a damaged table, which is set aside");
  MutexLock lock(mutex_);
  idle_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return is_idle(); });
}

void Quarantine::run() {
  MutexLock lock(mutex_);
  while (!stop_) {
    if (reported_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const std::uint64_t number = *reported_.begin();
    busy_ = true;
    lock.unlock();
    if (auto done = handle(number); !done && done.error().code != EINTR) parts_.fail_stop.set(done.error());
    lock.lock();
    busy_ = false;
    reported_.erase(number);  // only now: it has been met by many
    idle_.notify_all();
  }
}

// Reads one table, from its first row to its last, over what is damaged in it.
class Quarantine::Examination {
 public:
  // `known`: what is set aside already, whose rows are not looked for again.
  Examination(Volume& volume, rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, Family family, const SstFileMetaData& table,
              std::vector<TableBlock> known, const Stop& stop)
      : volume_(volume), family_(family), table_(table), known_(std::move(known)), stop_(stop), apart_(volume, db, handle, family, stop) {
    for (const TableBlock& block : known_) apart_.set_aside().add(block);
  }

  bool cannot_be_read() const { return apart_.cannot_be_read(); }  // a part of it

  Result<Damage> run() {
    const Status opened = guarded([&] { return apart_.open(table_); });
    if (!opened.ok() && stop_()) return failed(opened);
    // The database has read footer and properties long ago, and perhaps the index, and does without filters: see set_rest_aside().
    if (!opened.ok()) return std::move(damage_);
    while (true) {
      const Status status = read_on();
      if (status.ok()) break;
      const auto block = damaged_block(status);
      if (stop_() || !block || apart_.set_aside().has(*block)) return failed(status);
      apart_.set_aside().add(*block);
      damage_.blocks.push_back(*block);
      if (!gap_) gap_ = last_ ? next_key(family_, *last_) : table_.smallestkey;
    }
    if (gap_) damage_.ranges.emplace_back(*gap_, next_key(family_, table_.largestkey));
    return std::move(damage_);
  }

 private:
  // From the last row that could be read.
  Status read_on() {
    const auto rows = iterator();
    return guarded([&] {
      for (last_ ? rows->Seek(*last_) : rows->SeekToFirst(); rows->Valid(); rows->Next()) {
        if (last_ && *last_ == view_of(rows->key())) continue;
        if (gap_) damage_.ranges.emplace_back(*gap_, end_of_gap(rows->key().ToString()));
        gap_.reset();
        last_ = rows->key().ToString();
      }
      return rows->status();
    });
  }

  // The damaged blocks end well before the next row, perhaps. The index knows where: a seek behind their end does not read them.
  std::string end_of_gap(const std::string& row) {
    apart_.set_aside().forget(table_.file_number);
    for (const TableBlock& block : known_) apart_.set_aside().add(block);
    std::string low = *gap_, high = row;
    for (int probe = 0; probe < kProbes; ++probe) {
      std::string middle = midpoint(low, high);
      if (middle <= low || middle >= high) break;
      const auto rows = iterator();
      rows->Seek(middle);
      (rows->status().ok() ? high : low) = std::move(middle);
    }
    for (const TableBlock& block : damage_.blocks) apart_.set_aside().add(block);
    return high;
  }

  std::unique_ptr<rocksdb::Iterator> iterator() {
    return std::unique_ptr<rocksdb::Iterator>(apart_.reader().NewIterator(apart_.read_options()));
  }

  Error failed(const Status& status) const {
    if (stop_()) return make_error(EINTR, "quarantine");
    return to_error(status, "set damage aside in table " + table_.name.substr(1));
  }

  static constexpr int kProbes = 128;  // they halve what is in question

  Volume& volume_;
  const Family family_;
  const SstFileMetaData& table_;
  const std::vector<TableBlock> known_;
  const Stop& stop_;
  Apart apart_;
  Damage damage_;
  std::optional<std::string> last_;  // the key of the last row that could be read
  std::optional<std::string> gap_;   // where a gap begins that has not ended yet
};

// By samples, whether most of a table can be read.
bool can_mostly_be_read(Volume& volume, const SstFileMetaData& table) {
  constexpr std::uint64_t kSamples = 16;
  const auto reader = volume.open_reader(table.name.substr(1));
  if (!reader) return false;
  std::uint64_t good = 0;
  std::byte byte{};
  for (std::uint64_t i = 0; i < kSamples; ++i) good += (*reader)->read(ByteOffset{(*reader)->size().v / kSamples * i}, {&byte, 1}).has_value();
  return good > kSamples / 2;
}

Result<Quarantine::Damage> Quarantine::examine(Family family, const SstFileMetaData& table, const std::vector<TableBlock>& known) {
  const Stop stop = [this] { return stop_.load(); };
  for (const auto pause : {1, 2, 4, 0}) {
    Examination examination(parts_.volume, *db_, handle_of(family), family, table, known, stop);
    auto damage = examination.run();
    if (damage ? !examination.cannot_be_read() : damage.error().code != EIO) return damage;
    if (pause == 0 && can_mostly_be_read(parts_.volume, table)) return damage;
    MutexLock lock(mutex_);
    if (pause > 0) parts_.clock.wait(lock, wake_, parts_.clock.now() + std::chrono::seconds(pause), [&] { return stop(); });
    if (stop()) return make_error(EINTR, "quarantine");
  }
  return make_error(EIO, "most of table " + table.name.substr(1) + " cannot be read");
}

Result<void> Quarantine::handle(std::uint64_t number) {
  if (parts_.fail_stop.failed()) return {};
  for (const Family family : kFamilies) {
    for (const SstFileMetaData& table : tables_of(*db_, handle_of(family))) {
      if (table.file_number != number) continue;
      auto known = parts_.set_aside.all();
      std::erase_if(known, [&](const TableBlock& block) { return block.table != number; });
      LSMFS_ASSIGN(const Damage damage, examine(family, table, known));
      std::vector<LostRange> lost;
      LSMFS_ASSIGN(const bool there, write_down(family, table, damage, lost));
      if (!there) return {};
      for (const TableBlock& block : damage.blocks) parts_.set_aside.add(block);
      LSMFS_TRY(set_rest_aside(family, table, lost));
      if (known.empty() || !damage.blocks.empty()) tell(table, lost);
      // So that the damaged table goes. Where there is no space for it the next compaction there does it.
      rocksdb::CompactRangeOptions options = compact_options();
      options.canceled = &stop_;
      if (!compact_in_pieces(*db_, handle_of(family), options, table.smallestkey, table.largestkey, parts_.piece).ok()) {
        // After one that was asked for RocksDB begins none by itself, until a table comes.
        const rocksdb::Slice first(table.smallestkey), last(table.largestkey);
        rocksdb::experimental::SuggestCompactRange(db_, handle_of(family), &first, &last).PermitUncheckedError();
      }
      forget_gone();
      return {};
    }
  }
  return {};
}

Result<bool> Quarantine::keep_newer(Family family, const SstFileMetaData& table, LostRanges::Ranges& ranges) const {
  auto* const handle = handle_of(family);
  for (int look = 0; look < kLooks; ++look) {
    const auto before = numbers(tables_of(*db_, handle));
    rocksdb::ColumnFamilyMetaData facts;
    db_->GetColumnFamilyMetaData(handle, &facts);
    rocksdb::TablePropertiesCollection properties;
    if (const Status status = db_->GetPropertiesOfAllTables(handle, &properties); !status.ok()) return to_error(status, "tables");
    // Tables as old as the damaged one, or older: its level and those below it; of level 0 those whose rows came before its own.
    std::set<Identity> older;
    bool there = false;
    for (const auto& level : facts.levels) {
      there = there || std::ranges::count(level.files, table.file_number, &SstFileMetaData::file_number) > 0;
      if (!there) continue;
      for (const auto& other : level.files) {
        if (level.level == 0 && other.largest_seqno > table.largest_seqno) continue;
        if (const auto found = properties.find(other.db_path + other.name); found != properties.end()) older.insert(identity(*found->second));
      }
    }
    if (!there) return false;
    rocksdb::ReadOptions read = kv::read_options();
    read.fill_cache = false;
    read.table_filter = [&older](const rocksdb::TableProperties& one) { return !older.contains(identity(one)); };
    const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(read, handle));
    if (numbers(tables_of(*db_, handle)) != before) continue;  // since then: it may show other tables than these
    const auto all = ranges.all();
    LibraryBytes key;
    for (const auto& [from, to] : all) {
      std::uint64_t of_nothing = patches_of_nothing_by_this_thread();
      for (rows->Seek(from); rows->Valid(); rows->Next()) {
        const std::string_view at = key.of(rows->key());
        if (at >= to) break;
        // What lay under patches alone may be lost.
        if (of_nothing == patches_of_nothing_by_this_thread()) ranges.take(at, next_key(family, at));
        of_nothing = patches_of_nothing_by_this_thread();
      }
      if (!rows->status().ok()) break;
    }
    // Where a newer table is damaged as well, what it has cannot be told apart, and is lost, too.
    if (!rows->status().ok() && !rows->status().IsCorruption()) return to_error(rows->status(), "newer rows");
    return true;
  }
  return make_error(EBUSY, "set damage aside: the tables change all the time");
}

Result<bool> Quarantine::write_down(Family family, const SstFileMetaData& table, const Damage& damage, std::vector<LostRange>& lost) {
  {
    const MutexLock lock(parts_.commits);
    LostRanges::Ranges ranges;
    for (const auto& [from, to] : damage.ranges) ranges.add(from, to);
    LSMFS_ASSIGN(const bool there, keep_newer(family, table, ranges));
    if (!there) return false;
    for (const auto& [from, to] : ranges.all()) lost.push_back({family, from, to});
    rocksdb::WriteBatch rows;
    put_rows(rows, damage.blocks);
    auto change = parts_.lost.more(lost, rows);
    if (rows.Count() > 0) {
      const Status status = db_->Write(write_options(), &rows);
      LSMFS_TRY(parts_.fail_stop.check());
      if (!status.ok()) return to_error(status, "write down what is lost");
    }
    parts_.lost.install(std::move(change));
  }
  LSMFS_TRY(parts_.sync());
  return true;
}

Result<void> Quarantine::set_rest_aside(Family family, const SstFileMetaData& table, std::vector<LostRange>& lost) {
  LSMFS_ASSIGN(const auto read, reading_alone(*db_, handle_of(family), table));
  if (!read) return {};
  std::string from = table.smallestkey;
  std::vector<TableBlock> blocks;
  while (true) {
    if (stop_) return make_error(EINTR, "quarantine");
    const std::unique_ptr<rocksdb::Iterator> rows(db_->NewIterator(*read, handle_of(family)));
    for (rows->Seek(from); rows->Valid() && view_of(rows->key()) <= table.largestkey; rows->Next()) from = rows->key().ToString();
    if (rows->status().ok()) break;
    const auto block = damaged_block(rows->status());
    if (!block || block->table != table.file_number || parts_.set_aside.has(*block)) return to_error(rows->status(), "set damage aside in table " + table.name.substr(1));
    if (blocks.empty()) {
      LSMFS_ASSIGN(const bool there, write_down(family, table, {.ranges = {{from, next_key(family, table.largestkey)}}}, lost));
      if (!there) return {};
    }
    parts_.set_aside.add(*block);
    blocks.push_back(*block);
  }
  if (blocks.empty()) return {};
  LSMFS_TRY(write_down(family, table, {.blocks = std::move(blocks)}, lost));
  return {};
}

void Quarantine::forget_gone() {
  std::set<std::uint64_t> there;
  for (auto* const handle : handles_) {
    for (const auto& table : tables_of(*db_, handle)) there.insert(table.file_number);
  }
  rocksdb::WriteBatch rows;
  for (const TableBlock& block : parts_.set_aside.all()) {
    if (there.contains(block.table)) continue;
    (void)rows.Delete(row_key(block));
    parts_.set_aside.forget(block.table);
  }
  if (rows.Count() == 0) return;
  const MutexLock lock(parts_.commits);
  // A failure is met by whoever writes next, and the rows say nothing that is wrong.
  db_->Write(write_options(), &rows).PermitUncheckedError();
}

void Quarantine::tell(const SstFileMetaData& table, const std::vector<LostRange>& lost) const {
  const std::string name = table.name.substr(1);
  if (lost.empty()) parts_.notice(fmt::format("table {} is damaged; nothing is lost by it, and it is written anew", name));
  for (const LostRange& range : lost) {
    if (&range == &lost[0] + kLinesMost) return parts_.notice(fmt::format("table {} is damaged: and {} more such places", name, lost.size() - kLinesMost));
    parts_.notice(fmt::format("table {} is damaged: {} cannot be read until it is written anew, removed, or given up by fsck -y", name,
                              parts_.describe(range)));
  }
}

}  // namespace lsmfs::kv
