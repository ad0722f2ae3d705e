#include "kv/lost.h"

#include <iterator>
#include <utility>

#include "kv/library_bytes.h"
#include "kv/options.h"

namespace lsmfs::kv {
namespace {

using rocksdb::Slice;
using rocksdb::Status;

std::string row_key(Family family, std::string_view from) {
  std::string key(kLostPrefix);
  put_u8(key, static_cast<std::uint8_t>(family_number(family)));
  key += from;
  return key;
}

// Takes from the ranges what a batch puts or erases.
class Finder final : public rocksdb::WriteBatch::Handler {
 public:
  explicit Finder(const LostRanges::Families& before) : before_(before) {}

  Status PutCF(std::uint32_t family, const Slice& key, const Slice&) override {
    take_key(family, view_of(key));
    return Status::OK();
  }
  Status DeleteCF(std::uint32_t family, const Slice& key) override {
    take_key(family, view_of(key));
    return Status::OK();
  }
  Status DeleteRangeCF(std::uint32_t family, const Slice& from, const Slice& to) override {
    take(family, view_of(from), view_of(to));
    return Status::OK();
  }
  Status MergeCF(std::uint32_t, const Slice&, const Slice&) override { return Status::OK(); }

  void take_key(std::uint32_t family, std::string_view key) {
    take(family, key, next_key(family == family_number(Family::names) ? Family::names : Family::blocks, key));
  }
  void take(std::uint32_t family, std::string_view from, std::string_view to) {
    if (!before_.of[family].meets(from, to)) return;
    if (!next_) next_ = std::make_shared<LostRanges::Families>(before_);
    next_->of[family].take(from, to);
  }

  std::shared_ptr<const LostRanges::Families> result() { return std::move(next_); }

 private:
  const LostRanges::Families& before_;
  std::shared_ptr<LostRanges::Families> next_;
};

}  // namespace

Error lost_error() { return make_error(EUCLEAN, "what was there is lost with a damaged part of a table"); }

Status for_each_row(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, std::string_view from, std::string_view to,
                    const std::function<Status(std::string_view key, std::string_view value)>& take) {
  rocksdb::ReadOptions read = read_options();
  const Slice upper(to.data(), to.size());
  read.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> rows(db.NewIterator(read, family));
  LibraryBytes key, value;
  for (rows->Seek(Slice(from.data(), from.size())); rows->Valid(); rows->Next()) {
    if (Status taken = take(key.of(rows->key()), value.of(rows->value())); !taken.ok()) return taken;
  }
  return rows->status();
}

std::string next_key(Family family, std::string_view key) {
  std::string next(key);
  if (family == Family::names) return next += '\0';
  while (!next.empty() && next.back() == '\xff') next.pop_back();
  if (next.empty()) return std::string(key) + '\0';
  ++next.back();
  return next;
}

// ---- ranges

void LostRanges::Ranges::add(std::string from, std::string to) {
  if (from >= to) return;
  auto next = ranges_.upper_bound(from);
  if (next != ranges_.begin() && std::prev(next)->second >= from) {
    --next;
    from = next->first;
  }
  while (next != ranges_.end() && next->first <= to) {
    to = std::max(to, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace(std::move(from), std::move(to));
}

bool LostRanges::Ranges::take(std::string_view from, std::string_view to) {
  if (!meets(from, to)) return false;
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin() && std::prev(at)->second > from) --at;
  while (at != ranges_.end() && at->first < to) {
    const auto [first, last] = *at;
    at = ranges_.erase(at);
    if (first < from) ranges_.emplace(first, std::string(from));
    if (last > to) at = std::next(ranges_.emplace(std::string(to), last).first);
  }
  return true;
}

bool LostRanges::Ranges::meets(std::string_view from, std::string_view to) const {
  if (from >= to) return false;
  const auto next = ranges_.lower_bound(to);
  return next != ranges_.begin() && std::prev(next)->second > from;
}

// ---- what is in memory

std::shared_ptr<const LostRanges::Families> LostRanges::now() const {
  const MutexLock lock(mutex_);
  return now_;
}

LostRanges::View LostRanges::view() const {
  View view;
  if (!any()) return view;  // what is added from now on counts from the first on
  const MutexLock lock(mutex_);
  view.then = now_;
  view.added = added_.size();
  return view;
}

bool LostRanges::meets(const View& view, Family family, std::string_view from, std::string_view to) const {
  if (!any()) return false;
  if (view.then && view.then->of[family_number(family)].meets(from, to)) return true;
  const MutexLock lock(mutex_);
  for (std::size_t i = view.added; i < added_.size(); ++i) {
    if (added_[i].family == family && from < added_[i].to && added_[i].from < to) return true;
  }
  return false;
}

std::vector<LostRange> LostRanges::all() const {
  const auto ranges = now();
  std::vector<LostRange> all;
  for (const Family family : kFamilies) {
    for (const auto& [from, to] : ranges->of[family_number(family)].all()) all.push_back({family, from, to});
  }
  return all;
}

std::uint64_t LostRanges::losses() const {
  const MutexLock lock(mutex_);
  return losses_;
}

// ---- rows

Status LostRanges::load(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* names) {
  auto found = std::make_shared<Families>();
  bool any = false;
  const Status status = for_each_row(db, names, kLostPrefix, std::string(kLostPrefix) + '\2', [&](std::string_view row, std::string_view to) {
    const std::string_view key = row.substr(kLostPrefix.size());
    if (key.empty() || key.substr(1) >= to) return Status::Corruption("a row about lost rows is malformed");
    found->of[static_cast<std::uint8_t>(key.front())].add(std::string(key.substr(1)), std::string(to));
    any = true;
    return Status::OK();
  });
  if (!status.ok()) return status;
  const MutexLock lock(mutex_);
  now_ = std::move(found);
  added_.clear();
  any_.store(any, std::memory_order_release);
  return Status::OK();
}

void LostRanges::put_difference(const Families& before, const Families& after, rocksdb::WriteBatch& rows) {
  for (const Family family : kFamilies) {
    const auto& was = before.of[family_number(family)].all();
    const auto& is = after.of[family_number(family)].all();
    for (const auto& [from, to] : was) {
      if (!is.contains(from)) (void)rows.Delete(row_key(family, from));
    }
    for (const auto& [from, to] : is) {
      if (const auto same = was.find(from); same == was.end() || same->second != to) (void)rows.Put(row_key(family, from), to);
    }
  }
}

std::optional<LostRanges::Change> LostRanges::found_again(rocksdb::WriteBatch& batch, const std::vector<Known>& known) const {
  if (!any()) return std::nullopt;
  const auto before = now();
  Finder finder(*before);
  (void)batch.Iterate(&finder);  // nothing in it fails
  for (const auto& [range, as_of] : known) {
    if (!as_of || *as_of == losses()) finder.take(family_number(range.family), range.from, range.to);
  }
  auto next = finder.result();
  if (!next) return std::nullopt;
  put_difference(*before, *next, batch);
  return Change{std::move(next), {}};
}

LostRanges::Change LostRanges::more(const std::vector<LostRange>& ranges, rocksdb::WriteBatch& rows) const {
  const auto before = now();
  auto next = std::make_shared<Families>(*before);
  for (const LostRange& range : ranges) next->of[family_number(range.family)].add(range.from, range.to);
  put_difference(*before, *next, rows);
  return {std::move(next), ranges};
}

void LostRanges::install(Change change) {
  const MutexLock lock(mutex_);
  now_ = std::move(change.next);
  added_.insert(added_.end(), std::make_move_iterator(change.added.begin()), std::make_move_iterator(change.added.end()));
  if (!change.added.empty()) ++losses_;
  if (!change.added.empty()) any_.store(true, std::memory_order_release);
}

}  // namespace lsmfs::kv
