#include "kv/bulk.h"

#include <algorithm>
#include <utility>

#include "kv/guarded.h"
#include "kv/status.h"

namespace lsmfs::kv {
namespace {

constexpr std::size_t kBulkPiece = 256 * KiB;  // of rows that are written at a time

}  // namespace

Bulk::Bulk(Parts parts) : parts_(std::move(parts)), thread_(named_thread("lsmfs-bulk", [this] { run(); })) {}

Bulk::~Bulk() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
  parts_.ended(left_);
}

void Bulk::put(std::string key, std::string value) {
  const MutexLock lock(mutex_);
  ++left_;
  if (ended_ || stop_) return;
  bytes_ += key.size() + value.size();
  rows_.emplace(std::move(key), std::move(value));
  if (bytes_ > parts_.window) changed_.notify_all();
}

Result<void> Bulk::wait() {
  MutexLock lock(mutex_);
  const Waiting waiting("tables that are written in bulk");
  changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return bytes_ < 2 * parts_.window || ended_; });
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

Result<void> Bulk::finish() {
  MutexLock lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
  const Waiting waiting("tables that are written in bulk");
  changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return ended_; });
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

void Bulk::abandon() {
  {
    const MutexLock lock(taking_in_);
    abandoned_ = true;
  }
  const MutexLock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void Bulk::run() {
  IoFor::all_of_this_thread(IoCause::flush);
  MutexLock lock(mutex_);
  auto done = work(lock);
  if (!done) failure_ = std::move(done.error());
  if (table_) drop(*std::exchange(table_, std::nullopt));
  ended_ = true;
  rows_.clear();
  bytes_ = 0;
  changed_.notify_all();
}

Result<void> Bulk::work(MutexLock& lock) {
  for (;;) {
    changed_.wait(lock, [this]() LSMFS_REQUIRES(mutex_) { return stop_ || finishing_ || bytes_ > parts_.window; });
    if (stop_) return make_error(ECANCELED, "");
    if (finishing_ && !table_ && end_.empty()) {
      const std::vector<Row> all = take_all();
      const Unlocked unlocked(mutex_);
      return commit_all(all);
    }
    const std::vector<Row> piece = take_piece();
    const bool last = piece.empty() && rows_.empty();
    Result<void> done;
    {
      const Unlocked unlocked(mutex_);
      done = piece.empty() ? end_table() : write(piece);
    }
    LSMFS_TRY(done);
    if (last) return {};
    changed_.notify_all();
  }
}

// The next rows of the table that is being written, or of another one if there is none. None: it ends.
std::vector<Bulk::Row> Bulk::take_piece() {
  std::vector<Row> piece;
  auto next = table_ ? rows_.upper_bound(table_->last) : rows_.begin();
  const bool late = table_ ? !table_->before.empty() : next != rows_.end() && next->first < end_;
  const std::string& before = table_ ? table_->before : end_;
  const std::uint64_t waited = bytes_;
  while (next != rows_.end() && waited - bytes_ < kBulkPiece && (!late || next->first < before)) piece.push_back(take(next++));
  return piece;
}

std::vector<Bulk::Row> Bulk::take_all() {
  std::vector<Row> all;
  while (!rows_.empty()) all.push_back(take(rows_.begin()));
  return all;
}

Bulk::Row Bulk::take(Rows::iterator at) {
  auto row = rows_.extract(at);
  bytes_ -= row.key().size() + row.mapped().size();
  return {std::move(row.key()), std::move(row.mapped())};
}

Result<void> Bulk::open_table(const std::string& first) {
  LSMFS_TRY(parts_.admit(parts_.table));
  Table table{.writer = std::make_unique<rocksdb::SstFileWriter>(rocksdb::EnvOptions(), parts_.options), .path = parts_.name(), .last = {}, .before = {}};
  if (first < end_) table.before = end_;
  LSMFS_TRY(to_result(guarded([&] { return table.writer->Open(table.path); }), "make a table"));
  table_ = std::move(table);
  return {};
}

Result<void> Bulk::write(const std::vector<Row>& rows) {
  if (!table_) LSMFS_TRY(open_table(rows.front().first));
  for (const Row& row : rows) {
    LSMFS_TRY(to_result(guarded([&] { return table_->writer->Put(row.first, row.second); }), "write a table"));
  }
  table_->rows += rows.size();
  table_->last = rows.back().first;
  if (table_->writer->FileSize() >= parts_.table) return end_table();
  return {};
}

Result<void> Bulk::commit_all(const std::vector<Row>& rows) {
  const MutexLock lock(taking_in_);
  if (abandoned_) return make_error(ECANCELED, "");
  LSMFS_TRY(parts_.commit(rows));
  const MutexLock counted(mutex_);
  left_ -= rows.size();
  return {};
}

Result<void> Bulk::end_table() {
  if (!table_) return {};
  LSMFS_TRY(to_result(guarded([&] { return table_->writer->Finish(); }), "end a table"));
  const MutexLock lock(taking_in_);
  if (abandoned_) return make_error(ECANCELED, "");
  LSMFS_TRY(parts_.take_in(table_->path, table_->rows));
  {
    const MutexLock counted(mutex_);
    left_ -= table_->rows;
  }
  end_ = std::max(end_, table_->last);
  table_.reset();
  return {};
}

void Bulk::drop(Table table) {
  table.writer.reset();
  parts_.drop(table.path);
}

}  // namespace lsmfs::kv
