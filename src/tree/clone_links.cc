// Clones of directories below which files have names that have several. Such a file is one wherever its names are, so none of its names can
// be one that a directory shows: the copy has a file of its own, with the names that are below the clone.
//
// So each directory on the way to such a name is copied by its entries, and its files share their blocks. Other directories below it are
// shown, as always (clones.cc). To find these names, all directories below are read, where there are such files at all.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "tree/clone_links.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

// Finds the directories below which there are such names, that at `home` among them, and their files. Reads what is committed.
Result<LsmTree::Linked> LsmTree::look_for_links(const std::string& home) const {
  struct Directory {
    std::string home;
    std::size_t above;  // the one that it is in
  };
  Linked found;
  std::vector<Directory> directories{{home, 0}};
  std::unordered_set<std::string> known{home};
  std::vector<std::size_t> left{0};
  while (!left.empty()) {
    const std::size_t at = left.back();
    left.pop_back();
    const auto last = static_cast<std::ptrdiff_t>(left.size());
    const std::string begin = keys::entries_begin(directories[at].home);
    const auto cursor = store_.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(directories[at].home), .readahead = kRowsReadahead});
    bool any = false;
    for (cursor->seek(begin); cursor->valid(); cursor->next()) {
      const auto entry = decode_entry(cursor->value());
      if (!entry) return make_error(EUCLEAN, "the row of an entry is damaged");
      if (const auto* const link = std::get_if<Link>(&*entry)) {
        any = true;
        found.files.emplace_back(link->ino, std::string());
        continue;
      }
      const Record& record = std::get<Record>(*entry);
      if (!record.is_directory() || record.size == 0 || record.has_base()) continue;  // what is shown has none
      const std::string_view name = keys::entry_name(directories[at].home, cursor->key());
      std::string below = record.home_in(directories[at].home, name);
      // Those of a damaged tree may lie in each other. So it looks if one is moved meanwhile, and then this look does not count.
      if (!known.insert(below).second) return make_error(EUCLEAN, "a directory lies in two");
      directories.push_back({std::move(below), at});
      left.push_back(directories.size() - 1);
    }
    LSMFS_TRY(cursor->status());
    std::reverse(left.begin() + last, left.end());  // the first of them is next, in the order of keys
    for (std::size_t up = at; any && found.homes.try_emplace(directories[up].home).second;) up = directories[up].above;
  }
  std::ranges::sort(found.files);
  found.files.erase(std::unique(found.files.begin(), found.files.end()), found.files.end());
  return found;
}

// Reads the entries of these directories, and the records of these files. EAGAIN: not all is in memory, and `wait` is no.
Result<void> LsmTree::read_linked(Linked& linked, std::uint64_t settled, Wait wait) const {
  for (auto& [home, entries] : linked.homes) {
    LSMFS_ASSIGN(entries, entries_at(home, wait));
  }
  LSMFS_TRY(read_files(linked.files, wait));
  linked.settled = settled;
  return {};
}

Result<LsmTree::NamesRows> LsmTree::entries_at(const std::string& home, Wait wait) const {
  const std::string begin = keys::entries_begin(home);
  const auto cursor = store_.cursor(Family::names, {.lower = begin, .upper = keys::entries_end(home), .wait = wait,
                                                    .readahead = wait == Wait::yes ? kRowsReadahead : ByteCount{0}});
  NamesRows entries;
  for (cursor->seek(begin); cursor->valid(); cursor->next()) entries.emplace_back(keys::entry_name(home, cursor->key()), cursor->value());
  LSMFS_TRY(cursor->status());
  return entries;
}

// The rows of the records of files, in their order on the device. One that has none is empty.
Result<void> LsmTree::read_files(std::vector<std::pair<Ino, std::string>>& files, Wait wait) const {
  if (files.empty()) return {};
  const auto records = store_.cursor(Family::names, {.lower = keys::linked(files.front().first), .upper = keys::linked(Ino{files.back().first.v + 1}), .wait = wait,
                                                     .readahead = wait == Wait::yes ? kRowsReadahead : ByteCount{0}});
  for (auto& [ino, row] : files) {
    const std::string key = keys::linked(ino);
    if (records->valid() && records->key() < key) records->next();  // mostly it is that one
    if (!records->valid() || records->key() < key) records->seek(key);
    if (!records->valid()) LSMFS_TRY(records->status());
    row = records->valid() && records->key() == key ? records->value() : "";
  }
  return {};
}

// Before a directory leaves what it has to a clone. What lies below changes no more: all of it has to be in the store, also records that are
// still to be written. EAGAIN: it is not, or such names are to be looked for, of which `linked` tells then.
Result<void> LsmTree::know_links(const Lock& lock, const Inode& dir, Linked& linked) {
  end_streams();
  LSMFS_TRY(settle(lock, open_group().empty() ? open_group().number - 1 : open_group().number));
  if (linked.as_of == below_changes_) LSMFS_TRY(linked.outcome);
  LSMFS_ASSIGN(const bool any_linked, rows_.has_linked(lock));
  if (!any_linked) {
    linked = {};
    return {};
  }
  const std::uint64_t settled = history_.committed();
  if (linked.as_of == below_changes_ && linked.settled == settled) return {};
  if (linked.as_of != below_changes_) {
    lock.want([this, &linked, home = dir.home(), as_of = below_changes_, settled] {
      auto found = look_for_links(home);
      linked = found ? *std::move(found) : Linked{};
      linked.as_of = as_of;
      linked.outcome = found ? read_linked(linked, settled, Wait::yes) : found.error();
    });
    return make_error(EAGAIN, "");
  }
  // Something was committed since, such as access times. Mostly all of it is still in memory.
  auto read = read_linked(linked, settled, Wait::no);
  if (!read && read.error().code == EAGAIN) {
    lock.want([this, &linked, settled] { linked.outcome = read_linked(linked, settled, Wait::yes); });
  }
  return read;
}

// ---- the rows of copies

Result<void> LsmTree::Copying::add_all(Ino dir, const std::string& home, const std::string& to) {
  tree_.batch().save();
  puts_ = true;
  left_.push_back({dir, home, to});
  while (!left_.empty()) {
    const Directory next = std::move(left_.back());
    left_.pop_back();
    LSMFS_TRY(add(next));
  }
  return add_links();
}

LsmTree::Copying::~Copying() {
  if (puts_) tree_.batch().go_back();
}

Result<void> LsmTree::Copying::add(const Directory& dir) {
  const std::string& to = homes_.emplace_back(dir.copied);
  for (const auto& [name, row] : linked_.homes.at(dir.home)) {
    auto entry = decode_entry(row);
    if (!entry) return make_error(EUCLEAN, "the row of an entry is damaged");
    if (const auto* const link = std::get_if<Link>(&*entry)) {
      links_.push_back({link->ino, &to, &name});
    } else {
      LSMFS_TRY(add(dir, name, std::get<Record>(*std::move(entry))));
    }
  }
  return {};
}

Result<void> LsmTree::Copying::add(const Directory& dir, const std::string& name, Record record) {
  const auto& [number, home, to] = dir;
  const std::string own = record.home_in(home, name);
  if (!keys::number_of(own)) return make_error(EUCLEAN, fmt::format("the record of inode {} is damaged", record.ino.v));
  LSMFS_ASSIGN(const XattrRows xattrs, tree_.xattr_rows(lock_, record, own));
  Inode* const known = tree_.inodes_.find(number, name);
  if (known) record.ino = known->ino();  // it may be another one than the row says, if that met itself
  Record copy = new_record(record);
  copy.home = is_far(copy, to, name) ? keys::far_home(copy.ino) : "";
  const std::string copied = copy.home_in(to, name);
  const bool was_elsewhere = !record.home.empty();
  if (record.shows_something()) {
    if (record.has_base()) {
      copy.base = record.base;
    } else if (!record.is_directory()) {
      copy.base = own;
      share(known, keys::entry(home, name), record);
    } else if (linked_.homes.contains(own)) {
      left_.push_back({known ? known->ino() : Ino{}, own, copied});
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
      if (known) {
        changes_.emplace_back(known->ino(), std::move(record));
      } else {
        counts_.displaced += static_cast<std::uint64_t>(!record.home.empty()) - static_cast<std::uint64_t>(was_elsewhere);
        put(keys::entry(home, name), encode(record));
      }
    }
  }
  finish(copy, copied, xattrs);
  put(keys::entry(to, name), encode(copy));
  return {};
}

// The files whose names have been met.
Result<void> LsmTree::Copying::add_links() {
  std::ranges::stable_sort(links_, {}, &Name::ino);
  auto row = linked_.files.begin();
  for (auto names = links_.begin(), next = names; names != links_.end(); names = next) {
    const Ino ino = names->ino;
    next = std::find_if(names, links_.end(), [&](const Name& name) { return name.ino != ino; });
    while (row != linked_.files.end() && row->first < ino) ++row;
    const Inode* known = tree_.inodes_.find(ino);
    if (known && known->place != Inode::Place::linked) known = nullptr;  // which is another one that has met this number
    std::optional<Record> record;
    if (known) record = known->record;
    else if (row != linked_.files.end() && row->first == ino) record = decode_record(row->second);
    if (!record || record->ino != ino || record->is_directory() || record->home.empty() || !keys::number_of(record->home)) return make_error(EUCLEAN, fmt::format("the record of inode {} is damaged", ino.v));
    LSMFS_ASSIGN(const XattrRows xattrs, tree_.xattr_rows(lock_, *record, record->home));
    Record copy = new_record(*record);
    copy.nlink = static_cast<std::uint32_t>(next - names);
    const std::string copied = keys::child_home(*names->dir, *names->name, copy.ino);
    if (record->shows_something()) {
      copy.base = record->has_base() ? *record->base : record->home;
      share(known, keys::linked(ino), *record);
    }
    const bool several = copy.nlink > 1;
    copy.home = several ? copied : "";
    finish(copy, copied, xattrs);
    const std::string copied_row = encode(copy);
    if (several) put(keys::linked(copy.ino), copied_row);
    for (auto name = names; name != next; ++name) put(keys::entry(*name->dir, *name->name), several ? encode(Link{copy.ino, copy.mode & S_IFMT}) : copied_row);
  }
  if (next_.v >= kSnapshotsIno.v) return make_error(ENOSPC, "");
  return {};
}

void LsmTree::Copying::apply() {
  LsmTree& tree = tree_;
  tree.state_.next_ino = next_;
  tree.batch().keep();
  puts_ = false;
  for (const std::string& key : erased_) tree.batch().erase(Family::names, key);
  tree.state_.counts += counts_;
  // Who looks up what is not in memory waits for it: its record may change, and it may have users that it had not before. A base that is
  // written looks for these.
  const std::uint64_t group = tree.copied_group_ = tree.open_group().number;
  for (const Ino ino : shared_) {
    Inode& file = *tree.inodes_.find(ino);
    file.shared_group = group;
    if (file.record.has_base() || std::exchange(file.record.is_base, true)) continue;
    tree.changed(file);
  }
  for (auto& [ino, record] : changes_) {
    Inode& directory = *tree.inodes_.find(ino);
    directory.record = std::move(record);
    directory.own_home.reset();
    directory.shared_group = directory.xattrs_group = group;
    tree.changed(directory);
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
  count(counts_, copy, +1);
  counts_.displaced += copy.is_directory() && !copy.home.empty();
}

// One more has the blocks of a file. `key`: of the row of its record.
void LsmTree::Copying::share(const Inode* known, const std::string& key, Record& record) {
  if (known) shared_.push_back(known->ino());
  else if (!record.has_base() && !std::exchange(record.is_base, true)) put(key, encode(record));
}

void LsmTree::Copying::put_user(const std::string& base, Ino user) { put(keys::user(*keys::number_of(base), user), std::string(keys::kWholeUser)); }

void LsmTree::Copying::put(const std::string& key, const std::string& value) {
  bytes_ += key.size() + value.size() + kRowBytes;
  tree_.batch().put(Family::names, key, value);
}

}  // namespace lsmfs
