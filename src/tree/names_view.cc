#include "tree/names_view.h"

#include <fmt/format.h>

#include "tree/keys.h"

namespace lsmfs {
namespace {

Error damaged_row(std::string_view what, Ino number) { return make_error(EUCLEAN, fmt::format("{} {} is damaged", what, number.v)); }

}  // namespace

Result<void> NamesView::go_on() {
  if (read_++ % kRowsBetweenLooks == 0 && stop_()) return make_error(EINTR, "");
  return {};
}

// Until the next call. nullopt: there is no such row.
Result<std::optional<std::string_view>> NamesView::value_at(const std::string& key) {
  LSMFS_TRY(go_on());
  rows_->seek(key);
  if (rows_->valid()) return rows_->key() == key ? std::optional(rows_->value()) : std::nullopt;
  LSMFS_TRY(rows_->status());
  return std::optional<std::string_view>();
}

Result<NamesView::Entries> NamesView::entries(const std::string& dir_home, std::string_view after, std::size_t most) {
  Entries found;
  const std::string end = keys::entries_end(dir_home);
  for (rows_->seek(after.empty() ? keys::entries_begin(dir_home) : keys::entry(dir_home, after) + '\0'); rows_->valid() && rows_->key() < end; rows_->next()) {
    LSMFS_TRY(go_on());
    auto row = decode_entry(rows_->value());
    if (!row) return damaged_row("an entry of directory", keys::number_of(dir_home).value_or(Ino{}));
    found.emplace_back(keys::entry_name(dir_home, rows_->key()), *std::move(row));
    if (found.size() == most) return found;
  }
  if (!rows_->valid()) LSMFS_TRY(rows_->status());
  return found;
}

Result<std::optional<EntryRow>> NamesView::entry(const std::string& dir_home, std::string_view name) {
  LSMFS_ASSIGN(const auto value, value_at(keys::entry(dir_home, name)));
  if (!value) return std::optional<EntryRow>();
  auto row = decode_entry(*value);
  if (!row) return damaged_row("an entry of directory", keys::number_of(dir_home).value_or(Ino{}));
  return row;
}

Result<Record> NamesView::linked(Ino ino) {
  LSMFS_ASSIGN(const auto value, value_at(keys::linked(ino)));
  auto record = value ? decode_record(*value) : std::nullopt;
  if (!record) return damaged_row("the record of inode", ino);
  return *std::move(record);
}

Result<std::string> NamesView::xattr(const std::string& home, std::string_view name) {
  LSMFS_ASSIGN(const auto value, value_at(keys::xattr(home, name)));
  if (!value) return damaged_row("the row of an attribute of home", keys::number_of(home).value_or(Ino{}));
  return std::string(*value);
}

Result<std::optional<Node>> NamesView::node(Ino number) {
  LSMFS_ASSIGN(const auto value, value_at(keys::node(number)));
  if (!value) return std::optional<Node>();
  auto node = decode_node(*value);
  if (!node) return damaged_row("the row of base", number);
  return node;
}

Result<FileBlobs> NamesView::parts(Ino number) {
  FileBlobs found;
  const std::string end = keys::blobs_end(number);
  for (rows_->seek(keys::blobs_begin(number)); rows_->valid() && rows_->key() < end; rows_->next()) {
    LSMFS_TRY(go_on());
    const auto at = keys::parse_blob(rows_->key());
    if (!at || !found.add(at->first.v, rows_->value())) return damaged_row("what lies in parts of home", number);
  }
  if (!rows_->valid()) LSMFS_TRY(rows_->status());
  return found;
}

Result<std::optional<NamesView::User>> NamesView::user(Ino base, Ino least) {
  const std::optional<User> none;
  if (base >= unused_from_ && base < unused_to_) return none;
  LSMFS_TRY(go_on());
  static const std::string end = keys::prefix_end(keys::kUserPrefix);
  rows_->seek(keys::user(base, least));
  Ino next = kInoMax;
  if (rows_->valid() && rows_->key() < end) {
    const auto user = keys::parse_user(rows_->key());
    if (!user) return damaged_row("a row of a user of a base after", base);
    if (user->base == base) return std::optional(User{.number = user->user, .whole = rows_->value() == keys::kWholeUser});
    next = user->base;
  } else if (!rows_->valid()) {
    LSMFS_TRY(rows_->status());
  }
  if (least.v == 0) {
    unused_from_ = base;
    unused_to_ = next;
  }
  return none;
}

}  // namespace lsmfs
