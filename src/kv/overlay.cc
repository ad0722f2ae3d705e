#include "kv/overlay.h"

#include <algorithm>
#include <cassert>

#include "kv/batch.h"

namespace lsmfs::kv {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

std::string_view view(const Slice& slice) { return {slice.data(), slice.size()}; }

// Puts a batch's changes, in their order, where they belong.
class Taker final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Taker(Overlay::Rows (&rows)[2]) : rows_(rows) {}

  Status PutCF(std::uint32_t family, const Slice& key, const Slice& value) override {
    rows_[family].put(view(key), view(value));
    return Status::OK();
  }
  Status DeleteCF(std::uint32_t family, const Slice& key) override {
    rows_[family].erase(view(key));
    return Status::OK();
  }
  Status DeleteRangeCF(std::uint32_t family, const Slice& from, const Slice& to) override {
    rows_[family].erase_range(view(from), view(to));
    return Status::OK();
  }
  Status MergeCF(std::uint32_t family, const Slice& key, const Slice& operand) override {
    const auto patch = Patch::decode(view(operand));
    assert(patch);  // it was encoded by Batch
    if (patch) rows_[family].patch(view(key), *patch);
    return Status::OK();
  }

 private:
  Overlay::Rows (&rows_)[2];
};

class OverlayCursor final : public Cursor {
 public:
  OverlayCursor(std::shared_ptr<const Overlay::Rows> rows, std::unique_ptr<Cursor> below, const CursorOptions& options)
      : rows_(std::move(rows)), below_(std::move(below)), lower_(options.lower), upper_(options.upper), row_(end()) {}

  void seek(std::string_view key) override {
    if (key < std::string_view(lower_)) key = lower_;
    below_->seek(key);
    row_ = rows_->rows().lower_bound(key);
    settle();
  }

  void next() override {
    step();
    settle();
  }

  bool valid() const override { return value_.has_value(); }
  std::string_view key() const override { return key_; }
  std::string_view value() const override { return *value_; }
  Result<void> status() const override { return below_->status(); }

 private:
  using Row = std::map<std::string, Overlay::Rows::Row, std::less<>>::const_iterator;
  Row end() const { return rows_->rows().end(); }
  bool row_is_here() const { return row_ != end() && (upper_.empty() || row_->first < upper_); }

  // Past the row with key_.
  void step() {
    if (below_->valid() && below_->key() == key_) below_->next();
    if (row_is_here() && row_->first == key_) ++row_;
  }

  // To the next key that has a value, from the nearer one of the two.
  void settle() {
    value_.reset();
    while (below_->valid() || (row_is_here() && below_->status())) {
      const bool above = row_is_here() && (!below_->valid() || row_->first <= below_->key());
      const bool below = below_->valid() && (!above || row_->first == below_->key());
      key_ = above ? row_->first : std::string(below_->key());
      value_ = rows_->resolve(above ? &row_->second : nullptr, key_,
                              below ? std::optional<std::string>(below_->value()) : std::nullopt);
      if (value_) return;
      step();
    }
  }

  const std::shared_ptr<const Overlay::Rows> rows_;
  const std::unique_ptr<Cursor> below_;
  const std::string lower_, upper_;
  Row row_;
  std::string key_;
  std::optional<std::string> value_;
};

}  // namespace

void Overlay::Rows::erase_range(std::string_view from, std::string_view to) {
  rows_.erase(rows_.lower_bound(from), rows_.lower_bound(to));
  erased_.emplace_back(from, to);
}

void Overlay::Rows::patch(std::string_view key, const Patch& patch) {
  auto [row, added] = rows_.try_emplace(std::string(key));
  if (added) row->second.alone = erased(key);
  if (row->second.alone) {
    if (!row->second.value) row->second.value.emplace();
    patch.apply(*row->second.value);
  } else {
    row->second.patch.then(patch);
  }
}

bool Overlay::Rows::erased(std::string_view key) const {
  return std::any_of(erased_.begin(), erased_.end(), [&](const auto& range) { return range.first <= key && key < range.second; });
}

std::optional<std::string> Overlay::Rows::resolve(const Row* row, std::string_view key, std::optional<std::string> below) const {
  if (!row) return erased(key) ? std::nullopt : std::move(below);
  if (row->alone) return row->value;
  std::string value = std::move(below).value_or(std::string());
  row->patch.apply(value);
  return value;
}

void Overlay::add(const rocksdb::WriteBatch& batch) {
  const MutexLock lock(mutex_);
  Rows rows[2];
  for (int family = 0; family < 2; ++family) {
    if (rows_[family]) rows[family] = *rows_[family];
  }
  Taker taker(rows);
  (void)batch.Iterate(&taker);  // nothing in it fails
  for (int family = 0; family < 2; ++family) rows_[family] = std::make_shared<const Rows>(std::move(rows[family]));
  used_.store(true, std::memory_order_release);
}

std::shared_ptr<const Overlay::Rows> Overlay::rows(Family family) const {
  if (!used_.load(std::memory_order_acquire)) return nullptr;
  const MutexLock lock(mutex_);
  const auto& rows = rows_[family_number(family)];
  return rows->empty() ? nullptr : rows;
}

std::optional<std::string> Overlay::over(Family family, std::string_view key, std::optional<std::string> below) const {
  const auto rows = this->rows(family);
  if (!rows) return below;
  const auto row = rows->rows().find(key);
  return rows->resolve(row == rows->rows().end() ? nullptr : &row->second, key, std::move(below));
}

std::unique_ptr<Cursor> Overlay::over(Family family, std::unique_ptr<Cursor> below, const CursorOptions& options) const {
  auto rows = this->rows(family);
  if (!rows) return below;
  return std::make_unique<OverlayCursor>(std::move(rows), std::move(below), options);
}

}  // namespace lsmfs::kv
