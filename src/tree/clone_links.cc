// Clones of directories below which files have names that have several. Such a file is one wherever its names are, so none of its names can
// be one that a directory shows: the copy has a file of its own, with the names that are below the clone.
//
// So each directory on the way to such a name is copied by its entries, and its files share their blocks. Other directories below it are
// shown, as always (clones.cc). To find these names, all directories below are read, where there are such files at all.
#include <algorithm>
#include <map>
#include <utility>

#include "tree/clone_links.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

// Homes of directories below which there are such names, that one among them. Reads what is committed.
Result<LsmTree::Linked> LsmTree::look_for_links(const std::string& home, std::uint64_t as_of) const {
  struct Directory {
    std::string home;
    std::size_t above;  // the one that it is in
  };
  Linked found{.as_of = as_of, .homes = {}};
  std::vector<Directory> directories{{home, 0}};
  std::vector<std::size_t> left{0};
  std::vector<Ino> linked;
  while (!left.empty()) {
    const std::size_t at = left.back();
    left.pop_back();
    const std::string begin = keys::entries_begin(directories[at].home);
    const auto cursor = store_.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(directories[at].home), .readahead = kRowsReadahead});
    for (cursor->seek(begin); cursor->valid(); cursor->next()) {
      const auto entry = decode_entry(cursor->value());
      if (!entry) return make_error(EUCLEAN, "the row of an entry is damaged");
      if (const auto* const link = std::get_if<Link>(&*entry)) {
        linked.push_back(link->ino);
        for (std::size_t up = at; found.homes.insert(directories[up].home).second;) up = directories[up].above;
        continue;
      }
      const Record& record = std::get<Record>(*entry);
      if (!record.is_directory() || record.size == 0 || record.has_base()) continue;  // what is shown has none
      const std::string_view name = keys::entry_name(directories[at].home, cursor->key());
      std::string below = record.home_in(directories[at].home, name);
      // Those of a damaged tree may lie in each other.
      for (std::size_t up = at;; up = directories[up].above) {
        if (directories[up].home == below) return make_error(EUCLEAN, "a directory lies in itself");
        if (up == 0) break;
      }
      directories.push_back({std::move(below), at});
      left.push_back(directories.size() - 1);
    }
    LSMFS_TRY(cursor->status());
  }
  LSMFS_TRY(read_ahead_linked(std::move(linked)));
  return found;
}

// Has the records of these inodes in memory, in their order on the device. Who copies them holds the lock, and would begin again for each
// that is not.
Result<void> LsmTree::read_ahead_linked(std::vector<Ino> inodes) const {
  if (inodes.empty()) return {};
  std::ranges::sort(inodes);
  const auto records = store_.cursor(Family::names, {.lower = std::string(keys::kLinkedPrefix), .upper = keys::prefix_end(keys::kLinkedPrefix), .readahead = kRowsReadahead});
  records->seek(keys::linked(inodes.front()));
  for (const Ino ino : inodes) {
    const std::string key = keys::linked(ino);
    if (records->valid() && records->key() < key) records->next();  // mostly it is that one
    if (records->valid() && records->key() < key) records->seek(key);
  }
  return records->status();
}

// What is at home `home`, of directory `dir`, is to be at `to` as well.
Result<void> LsmTree::Copying::add(Ino dir, const std::string& home, const std::string& to) {
  LSMFS_ASSIGN(const auto rows, tree_.rows_.entries(lock_, home, "", SIZE_MAX));
  for (const auto& [key, value] : rows) {
    const std::string name(keys::entry_name(home, key));
    auto entry = decode_entry(value);
    if (!entry) return make_error(EUCLEAN, "the row of an entry is damaged");
    if (const auto* const link = std::get_if<Link>(&*entry)) {
      links_[link->ino].push_back({to, name});
    } else {
      LSMFS_TRY(add(dir, home, to, name, std::get<Record>(*std::move(entry))));
    }
  }
  return {};
}

Result<void> LsmTree::Copying::add(Ino dir, const std::string& home, const std::string& to, const std::string& name, Record record) {
  const std::string own = record.home_in(home, name);
  LSMFS_ASSIGN(const XattrRows xattrs, tree_.xattr_rows(lock_, record, own));
  Inode* const known = tree_.inodes_.find(dir, name);
  Record copy = new_record(record);
  copy.home = is_far(copy, to, name) ? keys::far_home(copy.ino) : "";
  const std::string copied = copy.home_in(to, name);
  const bool was_elsewhere = !record.home.empty();
  bool changes = false;
  if (record.shows_something()) {
    if (record.has_base()) {
      copy.base = record.base;
    } else if (!record.is_directory()) {
      copy.base = own;
      changes = !std::exchange(record.is_base, true);
    } else if (linked_.homes.contains(own)) {
      LSMFS_TRY(add(known ? known->ino() : record.ino, own, copied));
    } else {
      copy.base = own;
      put(keys::node(record.number()), encode(Node{.home = own, .directory = true}));
      record.base = own;
      record.home_number = next();
      record.home = is_far(record, home, name) ? keys::far_home(record.number()) : "";
      put_user(own, record.number());
      const std::string moved = record.home_in(home, name);
      for (const auto& [xattr, bytes] : xattrs) {
        erased_.push_back(keys::xattr(own, xattr));
        put(keys::xattr(moved, xattr), bytes);
      }
      changes = true;
    }
  }
  if (!known) elsewhere_ += static_cast<std::uint64_t>(!record.home.empty()) - static_cast<std::uint64_t>(was_elsewhere);
  if (changes) changes_.push_back({known ? known->ino() : Ino{}, keys::entry(home, name), std::move(record)});
  finish(copy, copied, xattrs);
  put(keys::entry(to, name), encode(copy));
  return {};
}

// The files whose names have been met.
Result<void> LsmTree::Copying::add_links() {
  for (const auto& [ino, names] : links_) {
    const Inode* const known = tree_.inodes_.find(ino);
    std::optional<Record> record;
    if (known) {
      record = known->record;
    } else {
      LSMFS_ASSIGN(const auto row, tree_.rows_.linked(lock_, ino));
      record = row ? decode_record(*row) : std::nullopt;
    }
    if (!record || record->home.empty()) return make_error(EUCLEAN, fmt::format("the record of inode {} is damaged", ino.v));
    LSMFS_ASSIGN(const XattrRows xattrs, tree_.xattr_rows(lock_, *record, record->home));
    Record copy = new_record(*record);
    copy.nlink = static_cast<std::uint32_t>(names.size());
    const std::string copied = keys::child_home(names.front().dir, names.front().name, copy.ino);
    if (record->shows_something()) {
      copy.base = record->has_base() ? *record->base : record->home;
      if (!record->has_base() && !record->is_base) {
        record->is_base = true;
        changes_.push_back({known ? ino : Ino{}, keys::linked(ino), *record});
      }
    }
    copy.home = names.size() > 1 ? copied : "";
    finish(copy, copied, xattrs);
    const std::string row = encode(copy);
    if (names.size() > 1) put(keys::linked(copy.ino), row);
    for (const Name& name : names) put(keys::entry(name.dir, name.name), names.size() > 1 ? encode(Link{copy.ino, copy.mode & S_IFMT}) : row);
  }
  if (next_.v >= kSnapshotsIno.v) return make_error(ENOSPC, "");
  return {};
}

void LsmTree::Copying::apply() {
  LsmTree& tree = tree_;
  tree.state_.next_ino = next_;
  for (const std::string& key : erased_) tree.batch().erase(Family::names, key);
  for (const auto& [key, value] : puts_) tree.batch().put(Family::names, key, value);
  for (const Record& record : counted_) tree.count(record, +1);
  tree.state_.counts.displaced += elsewhere_;
  for (Change& change : changes_) {
    Inode* const known = change.ino.v == 0 ? nullptr : tree.inodes_.find(change.ino);
    if (!known) {
      tree.batch().put(Family::names, change.key, encode(change.record));
      tree.copied_group_ = tree.open_group().number;  // who looks them up waits for it
      continue;
    }
    known->record = std::move(change.record);
    known->own_home.reset();
    known->shared_group = known->xattrs_group = tree.open_group().number;
    tree.changed(*known);
  }
  ++tree.layouts_;
}

Ino LsmTree::Copying::next() {
  const Ino number = next_;
  ++next_.v;
  return number;
}

bool LsmTree::Copying::is_far(const Record& record, const std::string& dir, std::string_view name) {
  return record.is_directory() && keys::too_deep(dir, name, record.number());
}

Record LsmTree::Copying::new_record(const Record& of) {
  Record copy = of;
  copy.ino = next();
  copy.home_number = {};
  copy.is_base = false;
  copy.base.reset();
  copy.shift = 0;
  return copy;
}

// What goes with the record of a copy that lies at `home`.
void LsmTree::Copying::finish(Record& copy, const std::string& home, const XattrRows& xattrs) {
  if (copy.has_base()) put_user(*copy.base, copy.ino);
  if (copy.has_base() && copy.is_directory()) copy.shift = drawn_shift();
  for (const auto& [name, value] : xattrs) put(keys::xattr(home, name), value);
  Record& counted = counted_.emplace_back();
  counted.mode = copy.mode;
  counted.flags = copy.flags;
  elsewhere_ += copy.is_directory() && !copy.home.empty();
}

void LsmTree::Copying::put_user(const std::string& base, Ino user) { put(keys::user(*keys::number_of(base), user), std::string(keys::kWholeUser)); }

void LsmTree::Copying::put(std::string key, std::string value) {
  bytes_ += key.size() + value.size() + kRowBytes;
  puts_.emplace_back(std::move(key), std::move(value));
}

}  // namespace lsmfs
