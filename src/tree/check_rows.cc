// What one row says to check_tree(), and what is wrong with it by itself.
#include <algorithm>

#include "tree/acl.h"
#include "tree/check.h"

namespace lsmfs {

using std::string_view_literals::operator""sv;

std::string inode_of(Ino number, const TreeFacts::Inode& found) {
  return number == found.ino ? fmt::format("inode {}", number.v) : fmt::format("inode {} (home {})", found.ino.v, number.v);
}

std::string path_in(std::string_view home, std::string_view name) {
  std::string path = keys::path_of(home);
  if (!name.empty()) path.append("/").append(name);
  return printable(path.starts_with('/') ? path : "/" + path);
}

bool ends_in(std::string_view home, Ino ino) {
  const std::string key = keys::block(home, BlockIndex{0});
  const auto parsed = keys::parse_block(key);
  return parsed && parsed->ino == ino;
}

std::string hex(std::string_view bytes) {
  std::string out;
  for (const char c : bytes.substr(0, 64)) out += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return out + (bytes.size() > 64 ? "..." : "");
}

// ---- family names

void Checker::take_name(std::string_view key, std::string_view value) {
  if (key.starts_with('/') && key >= keys::kNumberedBegin) return take_numbered(key, value);
  const auto parsed = keys::parse_names(key);
  if (!parsed) return problem("a row of names has the malformed key {}", hex(key));
  switch (parsed->kind) {
    case keys::NamesKey::Kind::root:
      return take_root(key, value);
    case keys::NamesKey::Kind::xattr:
      facts_.xattr_rows[{parsed->ino, checksum(parsed->home)}].emplace_back(parsed->name, value.size());
      check_acl(parsed->ino, parsed->name, value);
      return;
    case keys::NamesKey::Kind::entry:
      return take_entry(key, *parsed, value);
  }
}

void Checker::take_numbered(std::string_view key, std::string_view value) {
  if (key == keys::kState) {
    facts_.state = decode_state(value);
    facts_.state_seen = true;
    if (!facts_.state) miscount("the row of the tree's state is damaged");
    return;
  }
  if (key == keys::kSnapshots) return take_snapshots(key, value);
  if (key.starts_with(keys::kBlobPrefix)) return take_blob(key, value);
  if (key.starts_with(keys::kBlobPatchPrefix)) return take_blob_patch(key, value);
  if (key.starts_with(keys::kNodePrefix)) return take_node(key, value);
  if (key.starts_with(keys::kUserPrefix)) return take_user(key, value);
  if (key.starts_with(keys::kChanges)) return take_change(key, value);
  const bool linked = key.starts_with(keys::kLinkedPrefix);
  if (key.size() != keys::kLinkedPrefix.size() + 8 || (!linked && !key.starts_with(keys::kOrphanPrefix))) {
    return problem("a row of names has the unknown key {}", hex(key));
  }
  const Ino ino{Reader(key.substr(keys::kLinkedPrefix.size())).be64()};
  const auto record = decode_record(value);
  if (!record || record->ino != ino || ino == kRootIno || ino == kSnapshotsIno || record->home.empty()) {
    return problem("inode {}: its record is damaged", ino.v);
  }
  if (linked && record->is_directory()) problem("inode {}: is a directory with the record of a file of several names", ino.v);
  if (!linked && record->nlink != 0) miscount("inode {}: has no name, but a link count of {}", ino.v, record->nlink);
  add(key, *record, linked ? Found::Place::linked : Found::Place::orphan, record->home);
}

// What is wrong with it costs who asks for changes a look at everything, and nothing else. So it counts as a wrong number.
void Checker::take_change(std::string_view key, std::string_view value) {
  if (key == keys::kChanges) {
    change_head_ = decode_change_head(value);
    if (!change_head_) miscount("the head of the log of changes is damaged");
    return;
  }
  const auto sequence = keys::parse_change(key);
  const bool is_one = sequence && decode_change_row(value) && change_head_ && *sequence > change_head_->dropped;
  if (!is_one || (last_change_ && *last_change_ != *sequence + 1)) miscount("a row of the log of changes is damaged, missing, or there without need: {}", hex(key));
  last_change_ = sequence;
}

void Checker::take_root(std::string_view key, std::string_view value) {
  const auto record = decode_record(value);
  // Who left what it had to a snapshot has got another home.
  if (!record || !is_of_root(*record)) {
    return problem("inode {}: the root directory's record is damaged", kRootIno.v);
  }
  facts_.root = record->number();
  add(key, *record, Found::Place::top, record->home);
}

void Checker::take_snapshots(std::string_view key, std::string_view value) {
  const auto record = decode_record(value);
  if (!record || !is_of_snapshots(*record)) {
    return problem("the record of the directory of snapshots is damaged");
  }
  add(key, *record, Found::Place::top, record->home);
}

void Checker::take_entry(std::string_view key, const keys::NamesKey& parsed, std::string_view value) {
  if (!directory_ || directory_->home != parsed.home) {
    end_directory();
    directory_ = TreeFacts::Directory{std::string(parsed.home), parsed.ino};
  }
  ++directory_->entries;
  const auto row = decode_entry(value);
  if (!row) return problem("{}: its row is damaged", path_in(parsed.home, parsed.name));
  if (const auto* link = std::get_if<Link>(&*row)) {
    if (S_ISDIR(link->type)) problem("{}: is a second name of a directory", path_in(parsed.home, parsed.name));
    auto [types, is_new] = facts_.link_types.try_emplace(link->ino, link->type);
    if (!is_new && types->second != link->type) {
      problem("{}: says another type than another name of inode {}", path_in(parsed.home, parsed.name), link->ino.v);
    }
    facts_.names.push_back({parsed.ino, link->ino});
    return;
  }
  const Record& record = std::get<Record>(*row);
  if (record.ino == kRootIno) return problem("{}: has the number of the root directory", path_in(parsed.home, parsed.name));
  if (record.ino == kSnapshotsIno) return problem("{}: has the number of the directory of snapshots", path_in(parsed.home, parsed.name));
  if (record.snapshot_of && parsed.ino != kSnapshotsIno) problem("{}: says that it is a snapshot, and is not where they are", path_in(parsed.home, parsed.name));
  if (record.is_directory()) ++directory_->subdirectories;
  const std::string derived = keys::child_home(parsed.home, parsed.name, record.number());
  Found* found = add(key, record, Found::Place::named, record.home.empty() ? derived : record.home);
  if (!found) return;
  found->parent = parsed.ino;
  if (!record.is_directory() && record.nlink != 1) {
    miscount("{} (inode {}): has one name, but a link count of {}", path_in(parsed.home, parsed.name), record.ino.v, record.nlink);
  }
}

Checker::Found* Checker::add(std::string_view key, const Record& record, Found::Place place, std::string_view home) {
  const Ino number = record.number();
  auto [at, is_new] = facts_.inodes.try_emplace(number);
  Found& found = at->second;
  if (!is_new) {
    const bool has_it_first = found.ino == number || record.ino != number;  // whose own number it is has it anyway
    if (found.ino == record.ino) problem("inode {}: has two records, one of them for {}", record.ino.v, path_in(home));
    else problem("inode {}: has the home of another one", has_it_first ? record.ino.v : found.ino.v);
    if (has_it_first) return nullptr;
    for (auto [one, end] = facts_.moved.equal_range(found.ino); one != end;) one = one->second == number ? facts_.moved.erase(one) : std::next(one);
    facts_.bases.erase(number);
    facts_.xattrs.erase(number);
    found = Found{};
  }
  found.place = place;
  found.mode = record.mode;
  found.nlink = record.nlink;
  found.size = record.size;
  found.blocks = record.blocks;
  found.blob_blocks = record.blob_blocks;
  found.row = checksum(key);
  found.home = checksum(home);
  found.ino = record.ino;
  found.is_base = record.is_base;
  found.has_base = record.has_base();
  found.has_xattr_rows = record.has_xattr_rows();
  if (number != record.ino) facts_.moved.emplace(record.ino, number);
  if (record.has_base()) facts_.bases[number] = {*record.base, *keys::number_of(*record.base), record.shift};
  if (!home.empty() && !ends_in(home, record.number())) problem("inode {}: its home is not one of its own", record.ino.v);
  if (record.is_directory() && home.size() > keys::kPathHomeMax) problem("inode {}: its home is too long", record.ino.v);
  for (const Xattr& xattr : record.xattrs) {
    if (xattr.row_size > 0) {
      facts_.xattrs[number].emplace_back(xattr.name, xattr.row_size);
    } else {
      check_acl(record.ino, xattr.name, xattr.value);
    }
  }
  if (place == Found::Place::orphan) {
    ++(record.is_directory() && record.size > 0 ? report_.removed_trees : report_.unused);
  } else if (record.ino != kSnapshotsIno) {
    TreeCounts& c = facts_.counts;
    ++(S_ISREG(record.mode) ? c.regular : S_ISDIR(record.mode) ? c.directories : S_ISLNK(record.mode) ? c.symlinks : c.others);
    if (place == Found::Place::named && !record.home.empty()) ++c.displaced;
    if (record.is_immutable() || record.is_append_only()) ++c.fixed;
  }
  return &found;
}

void Checker::check_acl(Ino ino, std::string_view name, std::string_view value) {
  if (acl::is_name(name) && !acl::decode(value)) problem("inode {}: its access control list {} is damaged", ino.v, name);
}

void Checker::end_directory() {
  if (directory_) facts_.directories.push_back(std::move(*directory_));
  directory_.reset();
}

// ---- family blocks

void Checker::take_block(std::string_view key, std::string_view value) {
  if (!file_ || key.size() != file_->home.size() + 8 || !key.starts_with(file_->home)) {
    const auto parsed = keys::parse_block(key);
    if (!parsed) return problem("a row of file data has the malformed key {}", hex(key));
    end_file();
    file_ = FileSoFar{};
    file_->home = parsed->home;
    file_->number = parsed->ino;
    file_->found = facts_.file_at(parsed->ino, parsed->home);
    if (!file_->found) file_->node = facts_.file_node_at(parsed->ino, parsed->home);
    const auto blobs = facts_.blobs.find(parsed->ino);
    if (blobs != facts_.blobs.end()) file_->blobs = &blobs->second;
  }
  ++file_->rows;
  const std::uint64_t index = *keys::block_index(key, file_->home.size());
  if (!file_->found && !file_->node) {
    file_->end = index < block_count(kFileSizeMax) ? index * kBlockSize + value.size() : file_->end;
    return;
  }
  const std::uint64_t size = file_->found ? file_->found->size : file_->node->row.size;
  const std::uint64_t room = index < block_count(size) ? std::min<std::uint64_t>(kBlockSize, size - index * kBlockSize) : 0;
  if (value.size() > room || room == 0) ++file_->outside;
  if (file_->blobs && file_->blobs->has(index)) {
    ++file_->doubled;
    facts_.unreadable[file_->number].emplace_back(index, index + 1);  // in the part: the row is newer
  }
}

bool Checker::goes(const Found& found) {
  if (report_.removed_trees == 0) return false;
  if (found.place == Found::Place::linked) {
    if (!stay_) {
      stay_.emplace();
      for (const TreeFacts::Name& name : facts_.names) {
        const Found* const directory = facts_.of_number(name.directory);
        if (!directory || !(directory->place == Found::Place::orphan || goes(*directory))) stay_->insert(name.ino.v);
      }
    }
    return !stay_->contains(found.ino.v);
  }
  const Found* at = &found;
  // The parents of a damaged tree may lead back to it.
  for (std::size_t left = facts_.inodes.size(); at && at->place == Found::Place::named && left > 0; --left) at = facts_.of_number(at->parent);
  return at && at != &found && at->place == Found::Place::orphan;
}

void Checker::lacks_rows(const std::string& who, const Found& found) {
  if (goes(found)) missing_rows_ += found.blocks - found.rows;
  else problem("{}: has {} rows of data and says it has {}", who, found.rows == 0 ? "no" : std::to_string(found.rows), found.blocks);
}

void Checker::end_file() {
  if (!file_) return;
  FileSoFar file = *std::exchange(file_, std::nullopt);
  if (!file.found && !file.node) {
    problem("{}: {} rows of data of a file that does not exist (inode {})", path_in(file.home), file.rows, file.number.v);
    facts_.stray_files.push_back(std::move(file));
    return;
  }
  const std::string who = fmt::format("{} ({})", path_in(file.home), file.found ? inode_of(file.number, *file.found) : fmt::format("base {}", file.number.v));
  if (file.found && file.found->has_base) {
    problem("{}: has {} rows of data of its own, and shows a base", who, file.rows);
    file.found->has_own = true;
    return;
  }
  (file.found ? file.found->rows : file.node->rows) = file.rows;
  const std::uint64_t said = file.found ? file.found->blocks : file.node->row.blocks;
  if (file.rows > said) {
    miscount("{}: has {} rows of data and says it has {}", who, file.rows, said);
  } else if (file.rows < said && file.found) {
    lacks_rows(who, *file.found);
  } else if (file.rows < said) {
    problem("{}: has {} rows of data and says it has {}", who, file.rows, said);
  }
  if (file.doubled > 0) problem("{}: {} blocks have a row and lie in a blob, too", who, file.doubled);
  if (file.outside > 0) problem("{}: {} rows of data reach past its end", who, file.outside);
}

}  // namespace lsmfs
