// Relocation: what a rename has left where it was, and is small, moves in the background to where its path says, in one
// batch with all that lies below it. So a tree that was made of renamed parts is read in the order of the device again.
//
// What is larger stays, for to jump to it costs little beside reading it, and moving it much.
#include <sys/stat.h>

#include <utility>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kBytesMax = 4 * MiB;  // of keys and values
constexpr std::size_t kRowsMax = 4096;
constexpr std::size_t kCandidatesMax = 65536;
constexpr int kTries = 4;  // then it stays until a walk comes by

}  // namespace

// The rows that move, and the directories that they make up.
struct LsmTree::Moving {
  struct Row {
    Family family;
    std::string from, to, value;
  };
  // An inode whose home changes with that of the directory that it is in.
  struct Part {
    Record record;
    std::string from, to;  // homes
  };
  // An entry that is in such a directory.
  struct Entry {
    std::size_t dir;   // the part that the directory is
    std::string name;
    Ino ino;
    std::size_t part;  // that it is itself, or 0
  };
  std::vector<Row> rows;
  std::vector<Part> parts;
  std::vector<Entry> entries;
  std::uint64_t bytes = 0;
};

// Whether `inode` lies elsewhere than its path says, and need not.
bool LsmTree::is_displaced(const Inode& inode) {
  const Record& record = inode.record;
  if (!inode.lies_elsewhere() || !record.has_rows_below() || record.is_base) return false;
  if (record.is_directory() && keys::too_deep(*inode.dir_home, inode.name, inode.ino())) return false;
  return record.home != keys::child_home(*inode.dir_home, inode.name, record.number());
}

void LsmTree::note_displaced(const Inode& inode) {
  if (!is_displaced(inode) || options_.read_only || displaced_.size() >= kCandidatesMax || large_.contains(inode.ino())) return;
  if (displaced_.empty()) {
    upkeep_.displaced(clock_.now());
    look_again_in_time();
  }
  displaced_.push_back(inode.ino());
}

Result<bool> LsmTree::relocate() {
  LSMFS_ASSIGN(const bool dropped, drop_unused());
  if (dropped) return true;
  LSMFS_ASSIGN(const bool trimmed, trim_some());
  if (trimmed) return true;
  Ino ino;
  std::string home;
  {
    const Lock lock(mutex_);
    const Inode* inode = nullptr;
    for (; !inode && !displaced_.empty(); displaced_.pop_front()) {
      ino = displaced_.front();
      inode = inodes_.find(ino);  // one that nobody knows any more is noted when it is found again
      if (inode && !is_displaced(*inode)) inode = nullptr;
    }
    if (!inode) return false;
    home = inode->record.home;
  }
  for (int i = 0; i < kTries; ++i) {
    LSMFS_ASSIGN(const bool ended, try_to_relocate(ino, home));
    if (ended) break;
  }
  return true;
}

// False when rows that were in memory are not any more, as after a flush: to be tried again.
Result<bool> LsmTree::try_to_relocate(Ino ino, const std::string& home) {
  LSMFS_ASSIGN(const bool small, is_small(home));

  return attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<bool> {
    LSMFS_TRY(begin_change(lock, Wait::yes));
    if (!small) {
      if (large_.size() >= kCandidatesMax) large_.clear();
      large_.insert(ino);
      return true;
    }
    Inode* const inode = inodes_.find(ino);
    if (inode) renew(*inode);
    if (!inode || !is_displaced(*inode) || inode->record.home != home) return true;
    LSMFS_TRY(settle(lock, history_.last_rows()));  // from here on the rows are what counts
    Moving moving;
    moving.parts.push_back({inode->record, home, keys::child_home(*inode->dir_home, inode->name, inode->record.number())});
    const Result<void> collected = collect(moving);
    if (!collected && collected.error().code == EAGAIN) return false;
    if (!collected || !need_room(2 * moving.bytes)) return true;  // what is damaged stays
    move(*inode, moving);
    LSMFS_TRY(commit_all(lock));
    return true;
  }, Turns::alone);  // it needs all rows of all groups
}

// Whether all rows under a home are few; those of a file that has left a directory may be among them. Brings them into memory.
Result<bool> LsmTree::is_small(const std::string& home) const {
  std::uint64_t bytes = 0;
  std::size_t rows = 0;
  for (const Family family : {Family::names, Family::blocks}) {
    const auto cursor = store_.cursor(family, {.lower = home, .upper = keys::prefix_end(home), .wait = Wait::yes, .readahead = kRowsReadahead});
    for (cursor->seek(home); cursor->valid(); cursor->next()) {
      bytes += cursor->key().size() + cursor->value().size();
      if (bytes > kBytesMax || ++rows > kRowsMax) return false;
    }
    LSMFS_TRY(cursor->status());
  }
  return true;
}

// Adds the rows of all parts, and the parts that these lead to.
Result<void> LsmTree::collect(Moving& moving) const {
  const auto add_rows = [&](Family family, const Moving::Part& part, const std::string& lower, const std::string& upper, auto&& visit) -> Result<void> {
    const auto cursor = store_.cursor(family, {.lower = lower, .upper = upper, .wait = Wait::no});
    for (cursor->seek(lower); cursor->valid(); cursor->next()) {
      const std::string_view key = cursor->key(), value = cursor->value();
      moving.bytes += 2 * key.size() + value.size();
      if (moving.bytes > 2 * kBytesMax || moving.rows.size() >= kRowsMax) return make_error(EFBIG, "");
      moving.rows.push_back({family, std::string(key), part.to + std::string(key.substr(part.from.size())), std::string(value)});
      LSMFS_TRY(visit(moving.rows.back()));
    }
    return cursor->status();
  };
  for (std::size_t i = 0; i < moving.parts.size(); ++i) {
    const Moving::Part part = moving.parts[i];
    const std::string first_entry = keys::entries_begin(part.from);
    const auto visit_name = [&](const Moving::Row& row) -> Result<void> {
      if (row.from < first_entry) return {};  // an extended attribute
      const auto entry = decode_entry(row.value);
      if (!entry) return make_error(EUCLEAN, "");
      const std::string name(keys::entry_name(part.from, row.from));
      if (const auto* link = std::get_if<Link>(&*entry)) {
        moving.entries.push_back({i, name, link->ino, 0});
        return {};
      }
      const Record& record = std::get<Record>(*entry);
      const bool moves = record.home.empty();
      moving.entries.push_back({i, name, record.ino, moves ? moving.parts.size() : 0});
      if (!moves) return {};
      if (record.is_base) return make_error(EFBIG, "");  // others find its rows where they are
      if (record.is_directory() && keys::too_deep(part.to, name, record.ino)) return make_error(ENAMETOOLONG, "");
      moving.parts.push_back({record, keys::child_home(part.from, name, record.number()), keys::child_home(part.to, name, record.number())});
      return {};
    };
    if (part.record.is_directory() || part.record.has_xattr_rows()) {
      LSMFS_TRY(add_rows(Family::names, part, keys::entry(part.from, ""), keys::entries_end(part.from), visit_name));
    }
    if (part.record.is_regular() && part.record.blocks > 0) {
      LSMFS_TRY(add_rows(Family::blocks, part, part.from, keys::prefix_end(part.from), [](const auto&) { return Result<void>(); }));
    }
  }
  return {};
}

void LsmTree::move(Inode& inode, const Moving& moving) {
  for (const Moving::Row& row : moving.rows) {
    batch().put(row.family, row.to, row.value);
    batch().erase(row.family, row.from);
  }
  for (const Moving::Part& part : moving.parts) know_home(part.record, part.to);
  begin_group();
  open_group().blocks = true;
  absent_.dir = Ino{};
  ++below_changes_;
  ++layouts_;
  inode.record.home.clear();
  changed(inode);
  // Those in memory learn where they are now.
  std::vector<SharedHome> homes;
  for (const Moving::Part& part : moving.parts) homes.push_back(std::make_shared<const std::string>(part.to));
  const auto has_moved = [&](Inode& some, std::size_t part) LSMFS_LOCKED {
    some.moved = ++moves_;
    some.home_group = some.blocks_group = some.entries_group = some.xattrs_group = open_group().number;
    some.own_home = some.record.is_directory() ? homes[part] : nullptr;
  };
  has_moved(inode, 0);
  for (const Moving::Entry& entry : moving.entries) {
    Inode* const found = inodes_.find(entry.ino);
    if (!found) continue;
    const Ino dir = moving.parts[entry.dir].record.ino;
    for (Inode::Name& name : found->names) {
      if (name.dir == dir) name.dir_home = homes[entry.dir];
    }
    if (found->place != Inode::Place::named || found->parent != dir || found->name != entry.name) continue;
    inodes_.set_name(*found, dir, homes[entry.dir], entry.name);
    if (entry.part > 0) has_moved(*found, entry.part);
  }
}

}  // namespace lsmfs
