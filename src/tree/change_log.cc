#include "tree/change_log.h"

#include <algorithm>
#include <random>
#include <utility>

#include "tree/keys.h"

namespace lsmfs {
namespace {

constexpr std::size_t kNoteBytes = 32;     // about what a row takes beside its names, and a name beside its bytes, in memory
constexpr std::uint64_t kRowBytes = 64;    // what one takes in the store beside its value, generously
constexpr std::uint64_t kMarks = 16;       // the log goes in so many parts

std::uint64_t new_log_number() {
  static thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator() ^ std::uint64_t{std::random_device{}()} << 32 ^ std::random_device{}();
}

}  // namespace

// ---- notes

ChangedNames& ChangeNotes::at(Ino dir, std::string_view path) {
  auto found = paths_.find(path);
  if (found == paths_.end()) {
    bytes_ += path.size() + kNoteBytes;
    found = paths_.emplace(std::string(path), ChangedNames{}).first;
  }
  known_[dir] = &found->second;
  return found->second;
}

void ChangeNotes::add(ChangedNames& changed, std::string_view name) {
  if (changed.all || changed.names.contains(name)) return;
  changed.names.emplace(name);
  bytes_ += name.size() + kNoteBytes;
  if (bytes_ > kBytesMost) add_everything();
}

void ChangeNotes::add_below(std::string_view path) {
  if (const auto found = paths_.find(path); !path.empty() && found != paths_.end() && found->second.all) return;
  if (path.empty()) {
    paths_.clear();
    known_.clear();
    bytes_ = 0;
  }
  ChangedNames& changed = paths_[std::string(path)];
  changed.all = true;
  changed.names.clear();
  bytes_ += path.size() + kNoteBytes;
  ++moment_;  // others may have been forgotten
  if (path.empty()) return;
  if (bytes_ > kBytesMost) add_everything();
}

void ChangeNotes::paths_changed() {
  known_.clear();
  ++moment_;
}

ChangedPaths ChangeNotes::take() {
  paths_changed();
  bytes_ = 0;
  // A directory that was asked for, and in which nothing was noted, is none of them.
  std::erase_if(paths_, [](const auto& at) { return !at.second.all && at.second.names.empty(); });
  return std::exchange(paths_, {});
}

// ---- the log

Result<void> ChangeLog::load(Store& store, const std::function<void(std::string_view)>& notice) {
  const auto damaged = [&]() -> Result<void> {
    damaged_ = true;
    head_.reset();
    notice("the log of changes is damaged: who asks is told that everything may have changed");
    return {};
  };
  const auto row = store.get(Family::names, keys::kChanges, Wait::yes);
  if (!row) return row.error().code == EUCLEAN ? damaged() : Result<void>(row.error());
  if (!*row) return {};
  head_ = decode_change_head(**row);
  if (!head_) return damaged();
  last_ = std::max(head_->dropped, head_->logs.back().from);
  bytes_ = head_->dropped_bytes;
  const auto cursor = store.cursor(Family::names, {.lower = keys::change(ChangeHead::kPositionMost), .upper = keys::changes_end()});
  cursor->seek(keys::change(ChangeHead::kPositionMost));
  if (cursor->valid()) {
    const auto sequence = keys::parse_change(cursor->key());
    const auto newest = decode_change_row(cursor->value());
    if (!sequence || !newest || *sequence < last_ || newest->bytes < bytes_) return damaged();
    last_ = *sequence;
    bytes_ = newest->bytes;
  } else if (const auto ended = cursor->status(); !ended) {
    return ended.error().code == EUCLEAN ? damaged() : ended;
  }
  marks_ = {{head_->dropped, head_->dropped_bytes}};
  if (bytes_ - head_->dropped_bytes > kBytesMost / kShare) find_marks(*cursor);
  return {};
}

// Of a long log, so that it can go in parts. What cannot be read is no mark.
void ChangeLog::find_marks(Cursor& rows) {
  for (std::uint64_t part = 1; part < kMarks; ++part) {
    rows.seek(keys::change(head_->dropped + (last_ - head_->dropped) / kMarks * part));
    if (!rows.valid()) return;
    const auto sequence = keys::parse_change(rows.key());
    const auto row = decode_change_row(rows.value());
    if (sequence && row && *sequence > marks_.back().row && row->bytes > marks_.back().bytes && row->bytes < bytes_) marks_.push_back({*sequence, row->bytes});
  }
}

void ChangeLog::put_head(Batch& batch) const { batch.put(Family::names, keys::kChanges, encode(*head_)); }

void ChangeLog::forget(Batch& batch) {
  batch.erase_range(Family::names, keys::kChanges, keys::changes_end());
  damaged_ = false;
}

void ChangeLog::begin(Batch& batch, std::int64_t now) {
  if (damaged_) forget(batch);
  last_ = bytes_ = 0;
  head_ = ChangeHead{.asked = now, .dropped = 0, .dropped_bytes = 0, .logs = {{new_log_number(), 0}}};
  marks_ = {{0, 0}};
  new_log_ = false;
  put_head(batch);
}

// What goes into no row counts as one that was dropped at once: a token of a moment that a crash has undone is not known then.
void ChangeLog::keep_nothing(Batch& batch) {
  if (last_ > head_->dropped) batch.erase_range(Family::names, keys::change(last_), keys::changes_end());
  head_->dropped = ++last_;
  head_->dropped_bytes = bytes_;
  forget_old_logs();
  marks_ = {{last_, bytes_}};
  put_head(batch);
}

// Of which nothing is left.
void ChangeLog::forget_old_logs() {
  auto& logs = head_->logs;
  while (logs.size() > 1 && (logs[1].from < head_->dropped || logs.size() > ChangeHead::kLogsMost)) logs.erase(logs.begin());
}

void ChangeLog::stop(Batch& batch) {
  batch.erase_range(Family::names, keys::kChanges, keys::changes_end());
  head_.reset();
  marks_.clear();
}

bool ChangeLog::asked(Batch& batch, std::int64_t now) {
  if (now >= head_->asked && now - head_->asked < kAskedNoted) return false;
  head_->asked = now;
  put_head(batch);
  return true;
}

void ChangeLog::put(Batch& batch, const Conditions& conditions) {
  ChangedPaths paths = notes_.take();
  if (paths.empty()) return;
  if (conditions.now > head_->asked && conditions.now - head_->asked > kAskedWithin) return stop(batch);
  if (std::exchange(new_log_, false)) {
    head_->logs.push_back({new_log_number(), last_});
    forget_old_logs();
    put_head(batch);
  }
  if (conditions.little_room) return keep_nothing(batch);
  ++last_;
  ChangeRow row{.bytes = bytes_, .paths = std::move(paths)};
  row.bytes += kRowBytes + encode(row).size();
  bytes_ = row.bytes;
  batch.put(Family::names, keys::change(last_), encode(row));
  drop_oldest(batch, std::min(kBytesMost, conditions.volume / kShare));
}

void ChangeLog::drop_oldest(Batch& batch, std::uint64_t most) {
  if (bytes_ - marks_.back().bytes >= most / kMarks) marks_.push_back({last_, bytes_});
  if (bytes_ - marks_.front().bytes <= most || marks_.size() < 2) return;
  while (marks_.size() > 1 && bytes_ - marks_.front().bytes > most) marks_.pop_front();
  head_->dropped = marks_.front().row;
  head_->dropped_bytes = marks_.front().bytes;
  batch.erase_range(Family::names, keys::change(head_->dropped), keys::changes_end());
  put_head(batch);
}

ChangesToken ChangeLog::now() const { return {head_->logs.back().number, last_}; }

bool ChangeLog::knows(const ChangesToken& token) const {
  const auto& logs = head_->logs;
  const auto found = std::ranges::find(logs, token.log, &ChangeHead::Log::number);
  if (found == logs.end() || token.position < std::max(found->from, head_->dropped)) return false;
  return token.position <= (found + 1 == logs.end() ? last_ : (found + 1)->from);
}

}  // namespace lsmfs
