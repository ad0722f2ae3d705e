#include "tree/fetched.h"

#include <algorithm>
#include <utility>

#include "tree/block_cursor.h"

namespace lsmfs {
namespace {

class RowsCursor final : public Cursor {
 public:
  explicit RowsCursor(const Fetched::Rows& all) : all_(all) {}
  void seek(std::string_view key) override {
    const auto found = std::ranges::lower_bound(all_.rows, key, {}, [](const auto& row) { return std::string_view(row.first); });
    at_ = static_cast<std::size_t>(found - all_.rows.begin());
  }
  void next() override { ++at_; }
  bool valid() const override { return at_ < all_.rows.size(); }
  std::string_view key() const override { return all_.rows[at_].first; }
  std::string_view value() const override { return all_.rows[at_].second; }
  Result<void> status() const override { return valid() ? Result<void>() : all_.end; }

 private:
  const Fetched::Rows& all_;
  std::size_t at_ = 0;
};

}  // namespace

Fetched::Rows read_rows(Store& store, const Fetched::Range& range, Wait wait) {
  const auto cursor = store.cursor(range.family, {.lower = range.from, .upper = range.upper, .wait = wait,
                                                  .readahead = wait == Wait::yes ? kRowsReadahead : ByteCount{0}, .fill_cache = range.values});
  Fetched::Rows all;
  std::size_t bytes = 0;
  for (cursor->seek(range.from); cursor->valid(); cursor->next()) {
    if (bytes >= range.most && all.rows.size() >= 2) {
      all.end = make_error(EAGAIN, "");
      return all;
    }
    all.rows.emplace_back(cursor->key(), range.values ? cursor->value() : std::string_view());
    bytes += all.rows.back().first.size() + all.rows.back().second.size();
  }
  all.end = cursor->status();
  return all;
}

std::unique_ptr<Cursor> cursor_over(const Fetched::Rows& rows) { return std::make_unique<RowsCursor>(rows); }

void Fetched::fetch(Store& store, Family family, const std::string& key) {
  rows_.insert_or_assign({family, key}, store.get(family, key, Wait::yes));
}

void Fetched::fetch(Store& store, const Range& range) { parts_.push_back({range, read_rows(store, range, Wait::yes)}); }

void Fetched::fetch_blob(BlobReaders& readers, std::uint64_t blob, const BlobEnd& end, std::uint64_t block, std::uint64_t count) {
  std::string bytes(count * kBlobBlock, '\0');
  const auto done = readers.read(blob, end, block, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  blob_parts_.push_back({blob, block, count, done ? Result<std::string>(std::move(bytes)) : Result<std::string>(done.error())});
}

const Result<std::string>* Fetched::find_blob(std::uint64_t blob, std::uint64_t block, std::uint64_t count) const {
  const auto found = std::ranges::find_if(blob_parts_, [&](const BlobPart& part) { return part.blob == blob && part.block == block && part.count == count; });
  return found == blob_parts_.end() ? nullptr : &found->bytes;
}

void Fetched::fetch_runs(Store& store, const std::string& home, BlockIndex end, std::uint64_t state) {
  Runs runs;
  BlockCursor blocks(store, home, BlockIndex{0}, end, Wait::yes);
  for (; blocks.valid(); blocks.next()) {
    const std::uint64_t at = blocks.index().v;
    if (runs.empty() || runs.back().second != at) runs.emplace_back(at, at);
    ++runs.back().second;
  }
  const auto done = blocks.status();
  file_runs_.push_back({home, state, done ? Result<Runs>(std::move(runs)) : Result<Runs>(done.error())});
}

const Result<Fetched::Runs>* Fetched::find_runs(const std::string& home, std::uint64_t state) const {
  const auto found = std::ranges::find_if(file_runs_, [&](const FileRuns& one) { return one.home == home && one.state == state; });
  return found == file_runs_.end() ? nullptr : &found->runs;
}

void Fetched::as_of(std::uint64_t settled) {
  if (std::exchange(settled_, settled) == settled) return;
  rows_.clear();
  parts_.clear();
}

const Result<std::optional<std::string>>* Fetched::find(Family family, const std::string& key) const {
  const auto found = rows_.find({family, key});
  return found == rows_.end() ? nullptr : &found->second;
}

const Fetched::Rows* Fetched::find(const Range& range) const {
  const auto found = std::ranges::find(parts_, range, &Part::range);
  return found == parts_.end() ? nullptr : &found->rows;
}

}  // namespace lsmfs
