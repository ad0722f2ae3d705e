#include "tree/repair.h"

#include <algorithm>

#include "tree/acl.h"
#include "tree/blob_rows.h"
#include "tree/check.h"

namespace lsmfs {
namespace {

using std::string_view_literals::operator""sv;
using Place = TreeFacts::Inode::Place;

// Each makes a tree that has less wrong with it; what nests deeper is an attack.
constexpr int kRounds = 10;

}  // namespace

Mender::Mender(Store& store, TreeFacts& facts, RepairReport& report) : store_(store), facts_(facts), report_(report), data_rows_(report.left.block_rows) {
  // Numbers are never given again, so that no home is.
  next_ino_ = facts.state ? facts.state->next_ino : Ino{kRootIno.v + 1};
  const auto beyond = [this](Ino ino) {
    if (ino < kSnapshotsIno) next_ino_ = std::max(next_ino_, Ino{ino.v + 1});
  };
  for (const auto& [number, inode] : facts.inodes) beyond(number);
  for (const auto& [ino, number] : facts.moved) beyond(ino);
  for (const auto& directory : facts.stray_directories) beyond(directory.number);
  for (const auto& file : facts.stray_files) beyond(file.number);
  for (const auto& [number, base] : facts.bases) beyond(base.number);
  for (const auto& [number, node] : facts.nodes) beyond(number);
  for (const auto& [number, blobs] : facts.blobs) {
    beyond(number);
    for (const auto& part : blobs.parts()) beyond(part.shared() ? *keys::number_of(part.base) : Ino{part.blob});
  }
  // What a record has is its own.
  std::erase_if(facts.nodes, [&](const auto& node) { return facts.of_number(node.first) != nullptr; });
  // Of all rows that claim a number, one owner: a record or a base that is there, else a directory, else a file.
  for (const auto& directory : facts.stray_directories) {
    if (!has_owner(directory.number)) stray_homes_.try_emplace(directory.number, directory.home);
  }
  for (const auto& file : facts.stray_files) {
    if (!has_owner(file.number)) stray_homes_.try_emplace(file.number, file.home);
  }
}

// Whether something has this number in its home.
bool Mender::has_owner(Ino number) const { return facts_.inodes.contains(number) || facts_.nodes.contains(number); }

// Whether an inode could not get this number and its home.
bool Mender::is_taken(Ino number) const {
  return has_owner(number) || facts_.moved.contains(number) || stray_homes_.contains(number) || given_.contains(number);
}

Ino Mender::new_number() {
  const Ino number = unused_number();
  next_ino_ = std::max(next_ino_, Ino{number.v + 1});
  given_.insert(number);
  return number;
}

Result<void> Mender::run() {
  LSMFS_ASSIGN(const bool expanded, expand_root());
  if (expanded) return {};  // the next round mends the rest
  LSMFS_TRY(find_lost_and_found());
  find_cycles();
  mend_shared();
  mend_depths();
  mend_bases();
  mend_blobs();
  join_shown();
  mend_users();
  LSMFS_TRY(scan(Family::names, [this](auto key, auto value) { mend_name(key, value); }));
  LSMFS_TRY(scan(Family::blocks, [this](auto key, auto value) { mend_block(key, value); }));
  mend_root();
  mend_snapshots();
  take_in_strays();
  mend_state();
  return commit_some(0);
}

template <class Take>
Result<void> Mender::scan(Family family, Take take) {
  auto cursor = store_.cursor(family, {.lower = {}, .upper = {}, .readahead = kWholeReadahead, .fill_cache = false});
  for (cursor->seek(""); cursor->valid(); cursor->next()) {
    take(cursor->key(), cursor->value());
    LSMFS_TRY(commit_some(kBatch));
  }
  return cursor->status();
}

Result<void> Mender::commit_some(std::size_t least) {
  if (batch_.empty() || batch_.bytes() < least) return {};
  LSMFS_TRY(store_.commit(batch_));
  batch_.clear();
  return {};
}

// In each circle of directories one is taken out.
void Mender::find_cycles() {
  std::unordered_map<Ino, Ino> walked_from;
  for (const auto& [start, inode] : facts_.inodes) {
    if (!inode.is_directory() || inode.reach != TreeFacts::Inode::Reach::no || walked_from.contains(start)) continue;
    for (Ino at = start;;) {
      const auto found = facts_.inodes.find(at);
      if (found == facts_.inodes.end() || found->second.place != Place::named) break;
      const auto [walk, is_new] = walked_from.try_emplace(at, start);
      if (!is_new) {
        if (walk->second == start) cut_off_.insert(at);
        break;
      }
      at = found->second.parent;
    }
  }
}

bool Mender::is_stray(Ino number, std::string_view home) const {
  const auto at = stray_homes_.find(number);
  return at != stray_homes_.end() && at->second == home;
}

// ---- family names

void Mender::mend_name(std::string_view key, std::string_view value) {
  if (key.starts_with('/') && key >= keys::kNumberedBegin) return mend_numbered(key, value);
  const auto parsed = keys::parse_names(key);
  if (!parsed) {
    did("a row of names with the malformed key {}: erased", hex(key));
    return batch_.erase(Family::names, key);
  }
  if (parsed->kind == keys::NamesKey::Kind::xattr) return mend_xattr_row(key, *parsed, value);
  if (parsed->kind == keys::NamesKey::Kind::entry) return mend_entry(key, *parsed, value);
  if (!facts_.root) return;  // mend_root() writes it
  mend_record(key, *decode_record(value), "/");
}

void Mender::mend_numbered(std::string_view key, std::string_view value) {
  if (key == keys::kState) return;  // mend_state()
  if (key == keys::kSnapshots) return mend_snapshots_row(key, value);
  if (key.starts_with(keys::kBlobPrefix)) return mend_blob_row(key);
  if (key.starts_with(keys::kBlobPatchPrefix)) return mend_blob_patch(key);
  if (key.starts_with(keys::kNodePrefix)) return mend_node_row(key, value);
  if (key.starts_with(keys::kUserPrefix)) return mend_user_row(key);
  if (key.starts_with(keys::kChanges)) return batch_.erase(Family::names, key);
  const bool linked = key.starts_with(keys::kLinkedPrefix);
  const auto record = decode_record(value);
  const auto found = record ? facts_.inodes.find(record->number()) : facts_.inodes.end();
  const bool is_place = record && key == (linked ? keys::linked(record->ino) : keys::orphan(record->ino));
  if (found == facts_.inodes.end() || !is_place || !ends_in(record->home, record->number()) || (linked && record->is_directory()) ||
      (found->second.row != checksum(key) && found->second.ino == record->ino)) {
    did("the record at {}, of {}, is damaged: erased", hex(key), record ? path_in(record->home) : "something");
    return batch_.erase(Family::names, key);
  }
  const std::string path = path_in(record->home);
  if (found->second.row != checksum(key)) return mend_second_record(key, *record, path);
  const auto said = [&](const std::string& now) { did("{}: had no name any more, is now {}", path, now); };
  if (!linked && record->size == 0 && found->second.entries > 0) {  // nobody has removed these
    said(put_in_lost_and_found(record->number(), encode(*record)));
    return batch_.erase(Family::names, key);
  }
  mend_record(key, *record, path);
  if (linked && found->second.names == 0) said(put_in_lost_and_found(record->number(), encode(Link{record->ino, record->mode & S_IFMT})));
}

void Mender::mend_entry(std::string_view key, const keys::NamesKey& parsed, std::string_view value) {
  const std::string path = path_in(parsed.home, parsed.name);
  const bool of_new_root = parsed.home.empty() && !facts_.root;
  if (!of_new_root && !facts_.directory_at(parsed.ino, parsed.home) && !facts_.directory_node_at(parsed.ino, parsed.home) &&
      !is_stray(parsed.ino, parsed.home)) {
    did("{}: is an entry of no directory: erased", path);
    return batch_.erase(Family::names, key);
  }
  const auto row = decode_entry(value);
  if (!row) {
    did("{}: its row is damaged: erased", path);
    return batch_.erase(Family::names, key);
  }
  if (const auto* link = std::get_if<Link>(&*row)) return mend_link(key, parsed, *link);

  Record record = std::get<Record>(*row);
  const auto found = facts_.inodes.find(record.number());
  if (found == facts_.inodes.end() || (found->second.row != checksum(key) && found->second.ino == record.ino)) {
    did("{}: is a second record of inode {}: erased", path, record.ino.v);
    return batch_.erase(Family::names, key);
  }
  if (found->second.row != checksum(key)) return mend_second_record(key, record, path);
  if (cut_off_.contains(record.number())) {
    if (record.home.empty()) record.home = keys::child_home(parsed.home, parsed.name, record.number());
    did("{}: was in a circle of directories, is now {}", path, put_in_lost_and_found(record.number(), encode(record)));
    return batch_.erase(Family::names, key);
  }
  mend_record(key, record, path);
}

void Mender::mend_link(std::string_view key, const keys::NamesKey& parsed, const Link& link) {
  const auto number = facts_.linked_number(link.ino);
  const TreeFacts::Inode* const found = number ? facts_.of_number(*number) : nullptr;
  if (!found || found->is_directory()) {
    did("{}: is a name of nothing: erased", path_in(parsed.home, parsed.name));
    return batch_.erase(Family::names, key);
  }
  if (facts_.is_frozen_directory(parsed.ino)) {
    did("{}: is a name of a file of several names, which no clone can show: erased", path_in(parsed.home, parsed.name));
    return batch_.erase(Family::names, key);
  }
  const std::uint32_t type = found->mode & S_IFMT;
  if (link.type == type) return;
  did("{}: its type is now that of the inode it names", path_in(parsed.home, parsed.name));
  batch_.put(Family::names, key, encode(Link{link.ino, type}));
}

void Mender::mend_xattr_row(std::string_view key, const keys::NamesKey& parsed, std::string_view value) {
  if (acl::is_name(parsed.name) && !acl::decode(value)) {
    did("{}: its access control list is damaged: erased", path_in(parsed.home));
    return batch_.erase(Family::names, key);
  }
  const TreeFacts::Inode* const inode = facts_.at_home(parsed.ino, parsed.home);
  const auto wanted = facts_.xattrs.find(parsed.ino);
  if (inode && wanted != facts_.xattrs.end() &&
      std::ranges::count(wanted->second, std::pair(std::string(parsed.name), std::uint64_t{value.size()})) > 0) {
    return;
  }
  did("{}: a value of an extended attribute that it does not have: erased", path_in(parsed.home));
  batch_.erase(Family::names, key);
}

void Mender::mend_record(std::string_view key, const Record& record, const std::string& path) {
  const TreeFacts::Inode& found = facts_.inodes.at(record.number());
  Record next = record;
  if (found.place == Place::named && !next.home.empty() && !ends_in(next.home, next.number())) {
    next.home.clear();
    did("{}: its home was not one of its own", path);
  }
  const auto parsed = found.place == Place::named ? keys::parse_names(key) : std::nullopt;
  if (next.snapshot_of && (!parsed || parsed->ino != kSnapshotsIno)) {
    next.snapshot_of.reset();
    did("{}: is not where snapshots are, and none any more", path);
  }
  next.is_base = found.is_base;
  if (next.is_base != record.is_base) did("{}: others share its data", path);
  if (parsed && next.is_directory() && next.home.empty() && keys::too_deep(parsed->home, parsed->name, next.number())) {
    next.home = keys::far_home(next.number());
    did("{}: its home was too long", path);
  }
  if (next.has_base()) mend_base(next, path);
  if (record.is_directory()) {
    next.size = found.entries;
    next.nlink = found.place == Place::orphan ? 0 : static_cast<std::uint32_t>(2 + found.subdirectories);
    if (next.size < record.size) did("{}: {} of its {} entries are lost", path, record.size - next.size, record.size);
    if (next.size > record.size) did("{}: has {} entries, and not {}", path, next.size, record.size);
  } else {
    next.nlink = found.place == Place::orphan ? 0 : 1;
    if (found.place == Place::linked && found.names > 0) next.nlink = static_cast<std::uint32_t>(found.names);
  }
  if (next.nlink != record.nlink) did("{}: its link count is {}, and not {}", path, next.nlink, record.nlink);
  if (record.is_regular() && !record.has_base()) {
    next.blocks = std::min(found.rows, block_count(record.size));
    next.blob_blocks = std::min(found.in_blobs, block_count(record.size) - next.blocks);
    if (next.all_blocks() < record.all_blocks()) {
      did("{}: {} of its {} blocks of {} bytes are lost and read as zeros", path, record.all_blocks() - next.all_blocks(), record.all_blocks(), kBlockSize);
    } else if (next.all_blocks() > record.all_blocks()) {
      did("{}: has {} blocks of data, and not {}", path, next.all_blocks(), record.all_blocks());
    } else if (next != record && next.blocks != record.blocks) {
      did("{}: {} of its blocks lie in blobs, and not {}", path, next.blob_blocks, record.blob_blocks);
    }
  }
  mend_xattrs(next, path);
  if (const auto moves = moves_away_.find(record.number()); moves != moves_away_.end()) {
    const std::string from = move_away(key, next, moves->second);
    if (left_.contains(record.number())) {
      next.base = from;
      next.shift = 0;
      batch_.put(Family::names, keys::node(record.number()), encode(Node{from, 0, 0, 0, true}));
      did("{}: others show what it has, which is a base now", path);
    } else {
      did("{}: shows a base, and what lay at its home is not its own", path);
    }
  }
  if (facts_.twins.contains(record.number())) {
    const Ino number = next.number();
    next.ino = new_number();
    next.home_number = number;
    did("{}: is inode {}, since another one is {}", path, next.ino.v, record.ino.v);
    if (found.place == Place::orphan) {
      batch_.erase(Family::names, key);
      return batch_.put(Family::names, keys::orphan(next.ino), encode(next));
    }
  }
  if (next != record) batch_.put(Family::names, key, encode(next));
}

void Mender::mend_second_record(std::string_view key, Record record, const std::string& path) {
  did("{}: its home was that of another inode", path);
  std::erase_if(record.xattrs, [&](const Xattr& xattr) { return xattr.row_size > 0; });
  move_away(key, record, new_number());
  batch_.put(Family::names, key, encode(record));
}

std::string Mender::move_away(std::string_view key, Record& record, Ino number) {
  const auto entry = keys::parse_names(key);
  const bool is_named = entry && entry->kind == keys::NamesKey::Kind::entry;
  const std::string from = !record.home.empty() || record.ino == kRootIno ? record.home : keys::child_home(entry->home, entry->name, record.number());
  record.home_number = number;
  if (record.ino == kRootIno) record.home = keys::root_home(number);
  else record.home = is_named && !(record.is_directory() && keys::too_deep(entry->home, entry->name, number)) ? std::string() : keys::far_home(number);
  const std::string to = !record.home.empty() ? record.home : keys::child_home(entry->home, entry->name, number);
  for (const Xattr& xattr : record.xattrs) {
    if (xattr.row_size == 0) continue;
    const auto value = store_.get(Family::names, keys::xattr(from, xattr.name), Wait::yes);
    if (!value || !*value) continue;  // then it is lost
    batch_.put(Family::names, keys::xattr(to, xattr.name), **value);
    batch_.erase(Family::names, keys::xattr(from, xattr.name));
  }
  return from;
}

void Mender::mend_xattrs(Record& record, const std::string& path) {
  const auto* rows = facts_.xattr_rows_of(record.number());
  std::erase_if(record.xattrs, [&](const Xattr& xattr) {
    if (xattr.row_size == 0 && acl::is_name(xattr.name) && !acl::decode(xattr.value)) {
      did("{}: its access control list is damaged: erased", path);
      return true;
    }
    if (xattr.row_size == 0 || (rows && std::ranges::count(*rows, std::pair(xattr.name, std::uint64_t{xattr.row_size})) > 0)) {
      return false;
    }
    did("{}: its extended attribute {} is lost", path, printable(xattr.name));
    return true;
  });
}

// ---- blobs

void Mender::mend_blobs() {
  for (auto& [ino, blobs] : facts_.blobs) {
    BlobRows rows(batch_, ino);
    TreeFacts::Inode* const inode = facts_.of_number(ino);
    const auto node = facts_.nodes.find(ino);
    const bool is_node = node != facts_.nodes.end();
    const bool lost = !inode && !is_node;  // its record: a file without one gets another
    const bool is_directory = is_node ? node->second.row.directory : std::ranges::count(facts_.stray_directories, ino, &TreeFacts::Directory::number) > 0;
    if (moves_away_.contains(ino) && !left_.contains(ino)) continue;  // its inode leaves them
    if (inode ? !S_ISREG(inode->mode) : is_directory) {
      did("inode {}: {} blocks of data in blobs, and it is no file: erased", ino.v, blobs.live());
      blobs.remove(0, UINT64_MAX, rows);
      continue;
    }
    std::uint64_t gone = lost ? 0 : blobs.remove(block_count(is_node ? node->second.row.size : inode->size), UINT64_MAX, rows);
    const auto unreadable = facts_.unreadable.find(ino);
    if (unreadable != facts_.unreadable.end()) {
      for (const auto& [from, to] : unreadable->second) gone += blobs.remove(from, to, rows);
    }
    if (gone > 0) did("inode {}: {} blocks in blobs that cannot be read, or are not wanted there", ino.v, gone);
    if (!lost) (is_node ? node->second.in_parts : inode->in_blobs) = blobs.live();
  }
}

// Those that are sound have been mended.
void Mender::mend_blob_row(std::string_view key) {
  if (sound_blobs_.contains(std::string(key))) return;
  did("the row of a blob at {} is damaged: erased", hex(key));
  batch_.erase(Family::names, key);
}

// Of a block that lies in a blob; that of another goes, and a damaged one has gone with its block.
void Mender::mend_blob_patch(std::string_view key) {
  const auto at = keys::parse_blob_patch(key);
  const auto blobs = at ? facts_.blobs.find(at->ino) : facts_.blobs.end();
  if (blobs != facts_.blobs.end() && blobs->second.may_have_patch(at->first.v)) return;
  did("a patch at {} of no block in a blob: erased", hex(key));
  batch_.erase(Family::names, key);
}

// ---- what is shared

// What shares nothing that is there loses it; a base whose row is lost gets another.
void Mender::mend_shared() {
  for (auto& [number, blobs] : facts_.blobs) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> lost;
    for (const FileBlobs::Part& part : blobs.parts()) {
      sound_blobs_.insert(keys::blob(number, BlockIndex{part.first}));
      if (!part.shared()) continue;
      const std::uint64_t size = size_of_base(*keys::number_of(part.base), part.base);
      const std::uint64_t there = block_count(size) - std::min(part.from, block_count(size));
      if (there < part.blocks) lost.emplace_back(part.first + there, part.past());
    }
    BlobRows rows(batch_, number);
    std::uint64_t gone = 0;
    for (const auto& [from, to] : lost) {
      if (from < to) gone += blobs.remove(from, to, rows);
    }
    if (gone > 0) did("inode {}: {} blocks that it shared are lost and read as zeros", number.v, gone);
    if (gone > 0) incomplete_.insert(number);
  }
  mend_parts_of_incomplete();
}

// Blocks that bases have lost are no more shared: who shares them could not go on to write there.
void Mender::mend_parts_of_incomplete() {
  for (const auto& [number, found] : facts_.inodes) {
    if (!found.has_base && (found.rows < found.blocks || found.in_blobs < found.blob_blocks)) incomplete_.insert(number);
  }
  for (const auto& [number, node] : facts_.nodes) {
    if (node.rows < node.row.blocks || node.in_parts < node.row.blob_blocks) incomplete_.insert(number);
  }
  for (const auto& [number, blocks] : facts_.unreadable) incomplete_.insert(number);
  incomplete_.insert(made_again_.begin(), made_again_.end());

  std::map<Ino, std::set<std::uint64_t>> rows;
  const auto has = [&](Ino base, const std::string& home, std::uint64_t block) {
    auto known = rows.find(base);
    if (known == rows.end()) known = rows.emplace(base, rows_at(home)).first;
    if (known->second.contains(block)) return true;
    const auto unreadable = facts_.unreadable.find(base);
    const bool can_be_read = unreadable == facts_.unreadable.end() ||
                             std::ranges::none_of(unreadable->second, [&](const auto& run) { return run.first <= block && block < run.second; });
    const auto blobs = facts_.blobs.find(base);
    return can_be_read && blobs != facts_.blobs.end() && blobs->second.has(block);
  };
  for (bool done = false; !done;) {
    done = true;  // unless one that has lost something is a base itself
    for (auto& [number, blobs] : facts_.blobs) {
      std::vector<std::uint64_t> lost;
      for (const FileBlobs::Part& part : blobs.parts()) {
        if (!part.shared() || !incomplete_.contains(*keys::number_of(part.base))) continue;
        for (std::uint64_t block = part.first; block < part.past(); ++block) {
          if (part.has(block) && !has(*keys::number_of(part.base), part.base, block - part.first + part.from)) lost.push_back(block);
        }
      }
      if (lost.empty()) continue;
      BlobRows changed(batch_, number);
      for (const std::uint64_t block : lost) blobs.remove(block, block + 1, changed);
      did("inode {}: {} blocks that it shared are lost and read as zeros", number.v, lost.size());
      incomplete_.insert(number);
      done = false;
    }
  }
}

// Blocks of a file that have some; as far as they can be read.
std::set<std::uint64_t> Mender::rows_at(const std::string& home) const {
  std::set<std::uint64_t> found;
  const std::string first = keys::block(home, BlockIndex{0}), last = keys::block(home, BlockIndex{UINT64_MAX});
  const auto cursor = store_.cursor(Family::blocks, {});
  for (cursor->seek(first); cursor->valid() && cursor->key() <= last; cursor->next()) {
    if (const auto index = keys::block_index(cursor->key(), home.size())) found.insert(*index);
  }
  return found;
}

// What lies over too many bases, or over itself, cannot be read.
void Mender::mend_depths() {
  for (auto& [number, blobs] : facts_.blobs) {
    const auto lost = facts_.too_deep(number);
    if (lost.empty()) continue;
    BlobRows rows(batch_, number);
    std::uint64_t gone = 0;
    for (const auto& [from, to] : lost) gone += blobs.remove(from, to, rows);
    did("inode {}: {} blocks that it shared over too many bases are lost and read as zeros", number.v, gone);
  }
}

// Of what is still shared. The rows of bases that are made again can say now what these have.
void Mender::mend_users() {
  for (const Ino number : made_again_) {
    TreeFacts::Node& node = facts_.nodes.at(number);
    node.row.blocks = std::min(node.rows, block_count(node.row.size));
    node.row.blob_blocks = std::min(node.in_parts, block_count(node.row.size) - node.row.blocks);
    batch_.put(Family::names, keys::node(number), encode(node.row));
  }
  for (const auto& [number, blobs] : facts_.blobs) {
    for (const std::string& home : blobs.bases()) used_.emplace(std::pair(*keys::number_of(home), number), false);
  }
  for (const auto& [number, base] : facts_.bases) {
    const auto moves = moves_away_.find(number);
    used_[{base.number, moves != moves_away_.end() ? moves->second : number}] = true;
  }
  for (const Ino number : left_) used_[{number, moves_away_.at(number)}] = true;
  for (const auto& [pair, shows] : used_) {
    const auto& [base, user] = pair;
    const auto known = facts_.users.find(pair);
    if (known != facts_.users.end() && known->second == shows) continue;
    batch_.put(Family::names, keys::user(base, user), shows ? keys::kWholeUser : "");
    if (facts_.blobs.contains(user) || facts_.bases.contains(user)) did("base {}: knows again that inode {} shares its data", base.v, user.v);
  }
}

// Of the base of a shared part, in bytes; 0: there is none. Makes a node of what lies there without a record.
std::uint64_t Mender::size_of_base(Ino base, const std::string& home) {
  if (TreeFacts::Inode* const file = facts_.file_at(base, home)) {
    if (file->has_base) return 0;
    if (!facts_.is_frozen(*file)) file->is_base = true;
    return file->size;
  }
  if (const TreeFacts::Node* const node = facts_.file_node_at(base, home)) return node->row.size;
  const auto rows = std::ranges::find(facts_.stray_files, home, &TreeFacts::File::home);
  const auto blobs = facts_.blobs.find(base);
  if (facts_.of_number(base) || facts_.nodes.contains(base)) return 0;
  if (rows == facts_.stray_files.end() && blobs == facts_.blobs.end()) return 0;
  TreeFacts::Node& node = facts_.nodes[base];
  node.row.home = home;
  if (rows != facts_.stray_files.end()) {
    node.row.size = rows->end;
    node.rows = rows->rows;
    facts_.stray_files.erase(rows);
  }
  if (blobs != facts_.blobs.end() && !blobs->second.empty()) node.row.size = std::max(node.row.size, blobs->second.parts().back().past() * kBlockSize);
  stray_homes_.erase(base);
  made_again_.insert(base);
  did("base {}: its row was lost, and is made from its data", base.v);
  return node.row.size;
}

void Mender::mend_node_row(std::string_view key, std::string_view value) {
  const auto number = keys::parse_node(key);
  const auto row = decode_node(value);
  const auto found = number ? facts_.nodes.find(*number) : facts_.nodes.end();
  if (number && (made_again_.contains(*number) || left_.contains(*number))) return;
  if (found == facts_.nodes.end() || !row || found->second.row.home != row->home) {
    did("the row of a base at {} is damaged: erased", hex(key));
    return batch_.erase(Family::names, key);
  }
  Node next = *row;
  if (next.directory) return;
  next.blocks = std::min(found->second.rows, block_count(next.size));
  next.blob_blocks = std::min(found->second.in_parts, block_count(next.size) - next.blocks);
  if (next == *row) return;
  did("base {}: has {} rows and {} other blocks of data, and not {} and {}", number->v, next.blocks, next.blob_blocks, row->blocks, row->blob_blocks);
  batch_.put(Family::names, key, encode(next));
}

// What shows a base goes on to do so, if that can be shown. What is lost reads as an empty directory, or as zeros.
void Mender::mend_bases() {
  std::vector<Ino> lost;
  for (auto& [number, base] : facts_.bases) {
    const TreeFacts::Inode& found = facts_.inodes.at(number);
    if (!settle_base(number, base, found.is_directory())) lost.push_back(number);
    else if (found.has_own) moves_away_.emplace(number, new_number());
  }
  for (const Ino number : lost) facts_.bases.erase(number);
  for (const Ino number : facts_.same_views) {
    const auto base = facts_.bases.find(number);
    if (base != facts_.bases.end()) base->second.shift = shifts::kLeast + checksum(fmt::format("{} {}", number.v, base->second.shift)) % (shifts::kMost - shifts::kLeast);
  }
  for (const Ino number : left_) moves_away_.insert_or_assign(number, new_number());
}

// Finds the base that has what is shown. False: there is none.
bool Mender::settle_base(Ino number, TreeFacts::Base& base, bool directory) {
  if (facts_.circles.contains(number)) return false;
  std::set<Ino> seen{number};
  for (;;) {
    if (!seen.insert(base.number).second) return false;
    const auto below = facts_.bases.find(base.number);
    if (below == facts_.bases.end() || !facts_.at_home(base.number, base.home)) break;
    base = {below->second.home, below->second.number, directory ? shifts::sum(base.shift, below->second.shift) : 0};
  }
  return directory ? has_directory(base) : size_of_base(base.number, base.home) > 0;
}

// Whether there is something to be shown. What a directory in use has becomes a base, as does what lies there without a record.
bool Mender::has_directory(const TreeFacts::Base& base) {
  if (TreeFacts::Inode* const record = facts_.directory_at(base.number, base.home)) {
    const bool can_be_shown = record->place != Place::linked && record->entries > 0;
    if (can_be_shown && !facts_.is_frozen(*record)) left_.insert(base.number);
    return can_be_shown;
  }
  if (const TreeFacts::Node* const node = facts_.directory_node_at(base.number, base.home)) return node->entries > 0;
  const auto rows = std::ranges::find(facts_.stray_directories, base.home, &TreeFacts::Directory::home);
  if (rows == facts_.stray_directories.end() || !is_stray(base.number, base.home)) return false;
  TreeFacts::Node& node = facts_.nodes[base.number];
  node.row.home = base.home;
  node.row.directory = true;
  node.entries = rows->entries;
  node.subdirectories = rows->subdirectories;
  facts_.stray_directories.erase(rows);
  stray_homes_.erase(base.number);
  made_again_.insert(base.number);
  did("base {}: its row was lost, and is made from its entries", base.number.v);
  return true;
}

// What records with a base have is what that has.
void Mender::join_shown() {
  for (auto at = facts_.bases.begin(); at != facts_.bases.end();) {
    const TreeFacts::Base& base = at->second;
    TreeFacts::Inode& found = facts_.inodes.at(at->first);
    const TreeFacts::Inode* const record = facts_.of_number(base.number);
    const TreeFacts::Node* const node = record ? nullptr : &facts_.nodes.at(base.number);
    if (found.is_directory()) {
      found.entries = node ? node->entries : record->entries;
      found.subdirectories = node ? node->subdirectories : record->subdirectories;
    } else {
      const std::uint64_t size = node ? node->row.size : record->size;
      found.size = size;
      found.rows = std::min(node ? node->rows : record->rows, block_count(size));
      found.in_blobs = std::min(node ? node->in_parts : record->in_blobs, block_count(size) - found.rows);
    }
    if (found.is_directory() ? found.entries > 0 : found.rows + found.in_blobs > 0) {
      ++at;
    } else {
      moves_away_.erase(at->first);
      at = facts_.bases.erase(at);
    }
  }
  for (auto& [number, found] : facts_.inodes) {
    if (found.has_base && !facts_.bases.contains(number)) found.entries = found.subdirectories = found.rows = found.in_blobs = 0;
  }
}

void Mender::mend_base(Record& record, const std::string& path) {
  const TreeFacts::Inode& found = facts_.inodes.at(record.number());
  const auto base = facts_.bases.find(record.number());
  if (base == facts_.bases.end()) {
    did("{}: the base that it shows is lost", path);
    record.base.reset();
    record.shift = 0;
    if (record.is_regular()) record.blocks = record.blob_blocks = 0;
    return;
  }
  if (record.base != base->second.home) did("{}: shows base {}, and not {}", path, base->second.number.v, keys::number_of(*record.base)->v);
  else if (record.shift != base->second.shift) did("{}: has other inode numbers below it", path);
  record.base = base->second.home;
  record.shift = base->second.shift;
  if (record.is_directory()) return;
  if (record.size > found.size || found.rows + found.in_blobs > block_count(record.size)) {
    did("{}: has {} bytes, as its base, and not {}", path, found.size, record.size);
    record.size = found.size;
  }
  if (record.blocks != found.rows || record.blob_blocks != found.in_blobs) {
    did("{}: has {} rows and {} other blocks of data, as its base", path, found.rows, found.in_blobs);
  }
  record.blocks = found.rows;
  record.blob_blocks = found.in_blobs;
}

void Mender::mend_user_row(std::string_view key) {
  const auto user = keys::parse_user(key);
  if (user && used_.contains({user->base, user->user})) return;
  did("a row of a user of a base at {} that does not share its data: erased", hex(key));
  batch_.erase(Family::names, key);
}

// ---- family blocks

void Mender::mend_block(std::string_view key, std::string_view value) {
  const auto parsed = keys::parse_block(key);
  if (!parsed) {
    did("a row of file data with the malformed key {}: erased", hex(key));
    return erase_block(key);
  }
  const TreeFacts::Inode* const file = facts_.file_at(parsed->ino, parsed->home);
  const TreeFacts::Node* const node = facts_.file_node_at(parsed->ino, parsed->home);
  if (file && file->has_base) return;  // it leaves what lies there
  if (!file && !node) {
    if (is_stray(parsed->ino, parsed->home)) return;
    if (dropped_home_ != parsed->home) {
      dropped_home_ = parsed->home;
      did("{}: data of a file that does not exist: erased", path_in(parsed->home));
    }
    return erase_block(key);
  }
  const std::uint64_t index = parsed->index.v;
  const std::uint64_t size = file ? file->size : node->row.size;
  const std::uint64_t room = index < block_count(size) ? std::min<std::uint64_t>(kBlockSize, size - index * kBlockSize) : 0;
  if (room > 0 && value.size() <= room) return;
  did("{}: data past its end, in block {}: erased", path_in(parsed->home), index);
  if (room == 0) {
    erase_block(key);
  } else {
    batch_.put(Family::blocks, key, value.substr(0, room));
  }
}

void Mender::erase_block(std::string_view key) {
  --data_rows_;
  batch_.erase(Family::blocks, key);
}

// ---- what has no place in the tree gets one

// The next one, or if somebody has the last there is, another that no row has.
Ino Mender::unused_number() const {
  Ino ino = next_ino_;
  while (ino < kSnapshotsIno && is_taken(ino)) ++ino.v;
  while (ino >= kSnapshotsIno || is_taken(ino)) --ino.v;
  return ino;
}

std::string Mender::put_in_lost_and_found(Ino number, const std::string& row) {
  if (std::exchange(make_lost_and_found_, false)) {
    next_ino_ = std::max(next_ino_, Ino{lost_and_found_ino_.v + 1});
    batch_.put(Family::names, keys::entry(root_home(), lost_and_found_), encode(blank(lost_and_found_ino_, S_IFDIR | 0700)));
  }
  std::string name = fmt::format("#{}", number.v), key = keys::entry(lost_and_found_home_, name);
  // What has another home since may have been found once.
  for (int attempt = 1;; ++attempt) {
    const auto there = store_.get(Family::names, key, Wait::yes);
    if (!there || !*there) break;
    name = fmt::format("#{}-{}", number.v, attempt);
    key = keys::entry(lost_and_found_home_, name);
  }
  batch_.put(Family::names, key, row);
  return fmt::format("/{}/{}", lost_and_found_, name);
}

Record Mender::blank_at(Ino number, std::uint32_t mode) {
  const bool is_ino = facts_.moved.contains(number) || number == kSnapshotsIno;  // of another one
  Record record = blank(is_ino ? new_number() : number, mode);
  if (is_ino) record.home_number = number;
  return record;
}

Record Mender::blank(Ino ino, std::uint32_t mode) const {
  Record record;
  record.ino = ino;
  record.mode = mode;
  record.nlink = S_ISDIR(mode) ? 2 : 1;
  record.atime = record.mtime = record.ctime = record.btime = now_;
  return record;
}

void Mender::take_in_strays() {
  std::unordered_set<Ino> taken;
  if (!facts_.root) taken.insert(kRootIno);
  for (const auto& directory : facts_.stray_directories) {
    if (!is_stray(directory.number, directory.home) || !taken.insert(directory.number).second) continue;
    if (directory.home == keys::far_home(kSnapshotsIno)) continue;  // mend_snapshots()
    if (directory.home.empty()) {
      show_old_root(directory);
      continue;
    }
    Record record = blank_at(directory.number, S_IFDIR | 0700);
    record.home = directory.home;
    record.size = directory.entries;
    record.nlink += static_cast<std::uint32_t>(directory.subdirectories);
    did("{}: its record is lost, its entries are in {}", path_in(directory.home), put_in_lost_and_found(directory.number, encode(record)));
  }
  for (const auto& file : facts_.stray_files) {
    if (!is_stray(file.number, file.home) || !taken.insert(file.number).second) continue;
    Record record = blank_at(file.number, S_IFREG | 0600);
    record.home = file.home;
    record.size = file.end;
    record.blocks = std::min(file.rows, block_count(file.end));
    add_blobs(record);
    did("{}: its record is lost, its data are in {}", path_in(file.home), put_in_lost_and_found(file.number, encode(record)));
  }
  for (const auto& [number, blobs] : facts_.blobs) {
    if (facts_.inodes.contains(number) || facts_.nodes.contains(number) || blobs.empty() || !taken.insert(number).second) continue;
    Record record = blank_at(number, S_IFREG | 0600);
    record.home = keys::far_home(number);
    add_blobs(record);
    did("inode {}: its record is lost, its data are in {}", number.v, put_in_lost_and_found(number, encode(record)));
  }
}

// Of a file whose record is lost.
void Mender::add_blobs(Record& record) const {
  const auto blobs = facts_.blobs.find(record.number());
  if (blobs == facts_.blobs.end() || blobs->second.empty()) return;
  record.size = std::max(record.size, blobs->second.parts().back().past() * kBlockSize);
  record.blob_blocks = std::min(blobs->second.live(), block_count(record.size) - record.blocks);
}

void Mender::mend_state() {
  State state = facts_.state.value_or(State{});
  state.next_ino = next_ino_;
  state.counts = facts_.counts;
  state.data_rows = data_rows_;
  state.blob_waste = 0;
  for (const auto& [ino, blobs] : facts_.blobs) state.blob_waste += blobs.wasted();
  const std::string row = encode(state);
  if (facts_.state && encode(*facts_.state) == row) return;
  batch_.put(Family::names, keys::kState, row);
  static constexpr std::string_view kLine = "the tree's counts of files, of their data and of numbers given are corrected";
  if (std::ranges::find(report_.lines, kLine) == report_.lines.end()) did("{}", kLine);
}

namespace {

// A log of changes does not know what a repair changes, here or below.
Result<void> forget_changes(Store& store, RepairReport& report) {
  const auto cursor = store.cursor(Family::names, {.lower = std::string(keys::kChanges), .upper = keys::changes_end()});
  cursor->seek(keys::kChanges);
  if (!cursor->valid() && cursor->status()) return {};
  Batch batch;
  batch.erase_range(Family::names, keys::kChanges, keys::changes_end());
  ++report.mended;
  report.lines.emplace_back("the log of changes is erased: who asks is told that everything may have changed");
  return store.commit(batch);
}

}  // namespace

Result<RepairReport> repair_tree(Store& store, const std::function<void(std::uint64_t)>& progress) {
  RepairReport report;
  LSMFS_TRY(forget_changes(store, report));
  for (int round = 0;; ++round) {
    Checker checker(store, progress, /*verify=*/round == 0);
    LSMFS_ASSIGN(report.left, checker.run());
    // What could not be read would be taken for missing.
    if (report.left.clean() || !checker.read_all() || round == kRounds) break;
    LSMFS_TRY(Mender(store, checker.facts(), report).run());
  }
  LSMFS_TRY(store.sync());
  return report;
}

}  // namespace lsmfs
