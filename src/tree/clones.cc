// Clones: directories that have all in common until one of them changes.
//
// A directory may show a base: it has no entries of its own, but those that lie under the home of the base. Nobody changes these any more,
// nor anything below them. A clone is one record that shows a base. Its source shows it, too, from then on: its old home is left to both as a
// node, and it gets another one beside it. So a clone takes the same few rows whatever lies below.
//
// What is found in a directory that shows a base is implicit: it has no row of its own, and can be read but not changed. Before something
// changes in the directory, it is expanded: it gets an entry of its own for each that it shows. Directories among these show their part of
// the base then, and files have their blocks from there. So a change in a clone expands the directories on its way, and nothing else; and a
// directory has either all its entries from a base, or none.
//
// Inode numbers below a clone differ from those below its source by a shift, which is drawn at random. So nobody need look at what there is
// below to give it numbers. Where two meet in memory nevertheless, the one that comes second gets another number.
//
// Inodes in memory learn what has become of the directories above them when they are used next (renew).
#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "tree/clone_links.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::size_t kBuiltAtOnce = 64 * KiB;  // bytes of rows that are read for a step

std::uint64_t drawn_number(std::uint64_t least, std::uint64_t before) {
  static thread_local std::mt19937_64 generator{std::random_device{}()};
  return std::uniform_int_distribution<std::uint64_t>(least, before - 1)(generator);
}

}  // namespace

// ---- what a directory shows

// Of those that clones show; nobody in memory has it.
Ino LsmTree::free_number() const {
  for (;;) {
    const Ino ino{drawn_number(kCountedMax.v, kInoMax.v)};
    if (!inodes_.find(ino)) return ino;
  }
}

std::uint64_t LsmTree::drawn_shift() { return drawn_number(shifts::kLeast, shifts::kMost); }

// Before an inode of the table is used. The kernel holds on to the directories above it.
void LsmTree::renew(Inode& inode) {
  if (inode.as_of == layouts_) return;
  std::vector<Inode*> path;
  for (Inode* at = &inode; at && at->as_of != layouts_; at = at->is_top() ? nullptr : inodes_.find(at->parent)) {
    path.push_back(at);
    if (path.size() > inodes_.size()) break;  // the parents of a damaged tree may lead back to it
  }
  for (auto at = path.rbegin(); at != path.rend(); ++at) follow(**at);
}

// Its directory has been renewed.
void LsmTree::follow(Inode& inode) {
  inode.as_of = layouts_;
  Inode* const dir = inode.place == Inode::Place::named && !inode.is_top() ? inodes_.find(inode.parent) : nullptr;
  if (!dir) return;
  if (dir->record.has_base() && !inode.implicit) {
    // It was there before the directory, or one above it, left what it had to a clone as well.
    const std::string home = inode.home();
    Record& record = inode.record;
    if (record.shows_something() && !record.has_base()) record.base = home;
    inode.shown_home = record.has_xattr_rows() ? std::make_unique<const std::string>(home) : nullptr;
    record.home.clear();
    record.home_number = {};
    record.is_base = false;
    inode.implicit = true;
    inode.displaced = false;
  }
  if (inode.dir_home == dir->shared_home()) return;
  inodes_.set_name(inode, dir->ino(), dir->shared_home(), std::string(inode.name));
  inode.own_home.reset();
}

// ---- before something changes

// A row of its own, before an inode changes.
Result<void> LsmTree::own_row(const Lock& lock, Inode& inode, Expands what_for) {
  if (!inode.implicit) return {};
  Inode* const dir = inodes_.find(inode.parent);
  if (!dir) return make_error(EUCLEAN, fmt::format("the directory of inode {} is not known", inode.ino().v));
  return expand(lock, *dir, what_for);
}

// An entry that a directory gets when it is expanded.
struct LsmTree::Expanded {
  std::string name;
  Record record;
  XattrRows xattrs;
  std::size_t bytes() const {
    std::size_t sum = 2 * kRecordBytes + name.size() + (record.has_base() ? record.base->size() : 0) + record.symlink.size() + record.xattr_names_size() + record.xattr_inline_size();
    for (const auto& [attribute, value] : xattrs) sum += attribute.size() + value.size();
    return sum;
  }
};

Result<LsmTree::XattrRows> LsmTree::xattr_rows(const Lock& lock, const Record& record, const std::string& home) {
  XattrRows rows;
  for (const Xattr& xattr : record.xattrs) {
    if (xattr.row_size == 0) continue;
    auto value = rows_.xattr(lock, home, xattr.name);
    if (!value && value.error().code != EUCLEAN) return value.error();
    if (value && *value) rows.emplace_back(xattr.name, **std::move(value));  // else it is lost anyway
  }
  return rows;
}

// Entries after the name `after` that a directory shows, in so many bytes of rows, without the numbers of their homes. None: there are no more.
Result<std::vector<LsmTree::Expanded>> LsmTree::to_expand(const Lock& lock, const Inode& dir, std::string_view after, std::size_t most,
                                                                     Expands what_for) {
  const std::string& base = *dir.record.base;
  std::vector<Expanded> entries;
  LSMFS_ASSIGN(const auto rows, rows_.entries(lock, base, after, most));
  std::size_t bytes = 0;
  for (const auto& [key, value] : rows) {
    std::string name(keys::entry_name(base, key));
    auto row = decode_entry(value);
    if (!row || !std::holds_alternative<Record>(*row)) return make_error(EUCLEAN, fmt::format("an entry that directory {} shows is damaged", dir.ino().v));
    std::string home;
    Record record = record_shown(base, dir.record.shift, name, std::get<Record>(*std::move(row)), home);
    if (const Inode* known = inodes_.find(dir.ino(), name)) record.ino = known->ino();
    XattrRows xattrs;
    if (!home.empty()) {
      LSMFS_ASSIGN(xattrs, xattr_rows(lock, record, home));
    }
    entries.push_back({std::move(name), std::move(record), std::move(xattrs)});
    bytes += entries.back().bytes() + base.size();
  }
  if (state_.next_ino.v + entries.size() + 1 >= kSnapshotsIno.v) return make_error(ENOSPC, "");
  if (what_for == Expands::to_grow) LSMFS_TRY(need_room_for_names(bytes));  // a removal is never refused
  return entries;
}

// The rows of an entry, in a directory that has its entries at `home`.
void LsmTree::put_expanded(const std::string& home, Expanded& entry) {
  Record& record = entry.record;
  record.home_number = state_.next_ino;
  ++state_.next_ino.v;
  if (record.is_directory() && keys::too_deep(home, entry.name, record.number())) record.home = keys::far_home(record.number());
  rows_.put_entry(home, entry.name, encode(record));
  if (record.has_base()) rows_.put_user(*keys::number_of(*record.base), record.number(), true);
  const std::string own = record.home_in(home, entry.name);
  for (const auto& [name, value] : entry.xattrs) rows_.put_xattr(own, name, value);
  count(record, +1);
  if (!record.home.empty()) ++state_.counts.displaced;
}

// Gives a directory entries of its own, in place of those that it shows.
Result<void> LsmTree::expand(const Lock& lock, Inode& dir, Expands what_for) {
  if (dir.read_only) return make_error(EROFS, "");
  LSMFS_TRY(own_row(lock, dir, what_for));
  if (!dir.record.has_base()) return {};
  if (dir.record.size > options_.expand_at_once) return take_over_built(lock, dir, what_for);
  LSMFS_ASSIGN(std::vector<Expanded> entries, to_expand(lock, dir, "", SIZE_MAX, what_for));
  if (entries.size() != dir.record.size) return make_error(EUCLEAN, fmt::format("directory {} shows {} entries of {}", dir.ino().v, entries.size(), dir.record.size));

  const std::string home = *dir.shared_home();
  rows_.know_entries(home);
  for (Expanded& entry : entries) {
    put_expanded(home, entry);
    if (Inode* const known = inodes_.find(dir.ino(), entry.name)) has_own_row(dir, *known, std::move(entry.record));
  }
  has_own_entries(dir);
  return {};
}

void LsmTree::has_own_row(Inode& dir, Inode& inode, Record record) {
  inode.implicit = false;
  inode.shown_home.reset();
  inode.record = std::move(record);
  inodes_.set_name(inode, dir.ino(), dir.shared_home(), std::string(inode.name));
  inode.displaced = inode.lies_elsewhere();
  inode.own_home.reset();
  inode.xattrs_group = open_group().number;
}

// What it shows is not its any more. Those in memory learn where they are when they are used next.
void LsmTree::has_own_entries(Inode& dir) {
  leave_base(dir);
  changed(dir);
  dir.home_group = dir.entries_group = open_group().number;
  ++layouts_;
  if (!dir.is_removed_tree()) return;
  removed_trees_.push_front({dir.ino()});
  upkeep_.removed_tree(clock_.now());
  look_again_in_time();
}

// ---- large directories. Their entries are too many for one group. So they are put beside, in steps, as a node that nobody uses, while the
// directory goes on to show its base. When all are there, it has the node's home. If that does not come about, the node is dropped as others.

// Takes the entries that were built; EAGAIN: `lock` wants that they are.
Result<void> LsmTree::take_over_built(const Lock& lock, Inode& dir, Expands what_for) {
  const auto found = builds_.find(dir.ino());
  if (found == builds_.end() || !found->second.ended) {
    lock.want([this, ino = dir.ino(), what_for] { build(ino, what_for); });
    return make_error(EAGAIN, "");
  }
  const Build built = found->second;
  if (!built.outcome) {
    builds_.erase(found);
    return built.outcome;
  }
  LSMFS_TRY(settle(lock, std::max(built.group, dir.xattrs_group)));
  const std::string old = dir.home();
  LSMFS_ASSIGN(const XattrRows xattrs, xattr_rows(lock, dir.record, old));
  if (built.entries != dir.record.size) return make_error(EUCLEAN, fmt::format("directory {} shows {} entries of {}", dir.ino().v, built.entries, dir.record.size));
  std::vector<std::pair<Inode*, Record>> held;  // of those that it shows
  Result<void> looked;
  inodes_.for_each([&](Inode& inode) LSMFS_LOCKED {
    if (!looked || inode.place != Inode::Place::named || inode.parent != dir.ino() || inode.is_top()) return;
    const auto row = rows_.entry(lock, built.home, inode.name);
    auto record = row && *row ? decode_record(**row) : std::nullopt;
    if (!row) looked = row.error();
    else if (!record) looked = make_error(EUCLEAN, fmt::format("an entry of directory {} is damaged", dir.ino().v));
    else held.emplace_back(&inode, *std::move(record));
  });
  LSMFS_TRY(looked);

  builds_.erase(found);
  rows_.erase_node(built.number);
  has_own_entries(dir);
  dir.record.home_number = built.number;
  dir.record.home.clear();
  dir.own_home.reset();
  if (dir.removed() || dir.home() != built.home) dir.record.home = built.home;
  move_xattrs(dir, xattrs, old);
  for (auto& [inode, record] : held) {
    const Ino ino = inode->ino();
    const bool other = record.ino != ino;  // it had another number in memory
    record.ino = ino;
    has_own_row(dir, *inode, std::move(record));
    if (other) changed(*inode);
  }
  return {};
}

// Puts all entries beside that a directory shows. Others may change what they like meanwhile, but not the directory.
void LsmTree::build(Ino dir, Expands what_for) {
  for (bool ended = false; !ended;) {
    auto step = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED { return build_some(lock, dir, what_for); });
    ended = !step || !*step;
    if (!ended || step) continue;
    const Lock lock(mutex_);
    if (const auto failed = builds_.find(dir); failed != builds_.end() && !failed->second.ended) {
      abandon(failed->second);
      failed->second.ended = true;
      failed->second.outcome = step.error();
    }
  }
}

// Some of them. False: that was all, or the directory does not show them any more.
Result<bool> LsmTree::build_some(Lock& lock, Ino ino, Expands what_for) {
  if (!can_change()) return make_error(EROFS, "");
  LSMFS_TRY(pass_on(lock, Wait::yes));
  Inode* const dir = inodes_.find(ino);
  if (dir) renew(*dir);
  const bool shows = dir && dir->record.has_base() && !dir->implicit;
  auto found = builds_.find(ino);
  if (found != builds_.end() && (!shows || found->second.base != dir->record.base)) {
    abandon(found->second);
    builds_.erase(found);
    found = builds_.end();
  }
  if (!shows) return false;
  if (found != builds_.end() && found->second.ended) return false;
  const std::string after = found == builds_.end() ? "" : found->second.after;
  LSMFS_ASSIGN(std::vector<Expanded> entries, to_expand(lock, *dir, after, kBuiltAtOnce, what_for));
  if (found == builds_.end()) {
    Build begun;
    begun.number = state_.next_ino;
    ++state_.next_ino.v;
    if (ino == kRootIno) begun.home = keys::root_home(begun.number);
    else if (dir->removed() || keys::too_deep(*dir->dir_home, dir->name, begun.number)) begun.home = keys::far_home(begun.number);
    else begun.home = keys::child_home(*dir->dir_home, dir->name, begun.number);
    begun.base = *dir->record.base;
    rows_.put_node(begun.number, encode(Node{.home = begun.home, .directory = true}));
    rows_.know_entries(begun.home);
    found = builds_.emplace(ino, std::move(begun)).first;
  }
  Build& to = found->second;
  for (Expanded& entry : entries) {
    put_expanded(to.home, entry);
    to.after = std::move(entry.name);
    ++to.entries;
  }
  to.group = open_group().number;
  to.ended = entries.empty();
  begin_group();
  return !to.ended;
}

void LsmTree::abandon(const Build& build) {
  if (!build.ended || build.outcome) note_unused(build.number, open_group().number);
}

// It has what is its own from now on, or nothing.
void LsmTree::leave_base(Inode& inode) {
  Record& record = inode.record;
  const Ino base = *keys::number_of(*record.base);
  rows_.erase_user(base, record.number());
  note_unused(base, open_group().number);
  if (const auto built = builds_.find(inode.ino()); built != builds_.end()) {
    abandon(built->second);
    builds_.erase(built);
  }
  record.base.reset();
  record.shift = 0;
  inode.moved = ++moves_;
  if (!record.is_regular()) return;
  record.blocks = record.blob_blocks = 0;
  inode.large.reset();
  inode.rows.reset();
}

// ---- clones

// Its attributes that have rows move along with it.
void LsmTree::move_xattrs(Inode& dir, const XattrRows& xattrs, const std::string& from) {
  const std::string home = dir.home();
  for (const auto& [name, value] : xattrs) {
    rows_.erase_xattr(from, name);
    rows_.put_xattr(home, name, value);
  }
  dir.xattrs_group = open_group().number;
}

// A directory leaves what it has to others, and shows it. Must hold: it has entries, and all of them and of what lies below are committed.
void LsmTree::freeze(Inode& dir, const XattrRows& xattrs) {
  Record& record = dir.record;
  const std::string old = dir.home();
  const Ino base = record.number();
  rows_.put_node(base, encode(Node{.home = old, .directory = true}));
  record.home.clear();
  record.home_number = state_.next_ino;
  ++state_.next_ino.v;
  settle_far_away(dir);
  record.base = old;
  record.shift = 0;
  dir.own_home.reset();
  move_xattrs(dir, xattrs, old);
  rows_.put_user(base, record.number(), true);
  changed(dir);
  ++layouts_;
}

// From the root on, or from the directory of snapshots. The kernel holds on to the directories above one that is in use.
std::string LsmTree::path_of(const Inode& directory) const {
  std::string path;
  std::size_t left = inodes_.size();  // the parents of a damaged tree may lead back to it
  for (const Inode* at = &directory; at && at->ino() != kRootIno && left-- > 0; at = inodes_.find(at->parent)) path.insert(0, "/" + at->name);
  return path.empty() ? "/" : path;
}

Result<SnapshotInfo> LsmTree::snapshot_info(Ino ino, Wait wait) {
  return attempt(wait, [&](const Lock&) LSMFS_LOCKED -> Result<SnapshotInfo> {
    LSMFS_ASSIGN(const Inode* inode, find_directory(ino));
    if (!inode->record.snapshot_of) return make_error(EINVAL, "");
    return SnapshotInfo{.made = inode->record.btime, .of = *inode->record.snapshot_of};
  });
}

Result<void> LsmTree::clone(Ino dir_ino, Ino to_ino, std::string_view name, Wait wait) {
  Linked linked;
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    LSMFS_ASSIGN(Inode * to, find_directory(to_ino));
    LSMFS_ASSIGN(Inode * existing, load(lock, *to, name));
    const Loaded loaded{*this, existing};
    if (existing) return make_error(EEXIST, "");
    const bool is_snapshot = to->ino() == kSnapshotsIno;
    LSMFS_TRY(is_snapshot ? may_name_in(*to) : may_add_to(*to));
    if (is_within(*to, *dir) || dir->ino() == kSnapshotsIno) return make_error(EINVAL, "");
    LSMFS_TRY(need_room_for_names(2 * kRecordRoom));
    if (state_.next_ino.v + 2 >= kSnapshotsIno.v) return make_error(ENOSPC, "");
    LSMFS_TRY(expand(lock, *to));
    const bool has_own = dir->record.size > 0 && !dir->record.has_base();
    LSMFS_TRY(has_own ? know_links(lock, *dir, linked) : settle(lock, dir->xattrs_group));
    LSMFS_ASSIGN(const XattrRows xattrs, xattr_rows(lock, dir->record, dir->xattr_home()));

    Inode made;
    made.record = dir->record;
    made.record.ino = state_.next_ino;
    made.record.home.clear();
    made.record.home_number = {};
    made.record.snapshot_of.reset();
    if (is_snapshot) made.record.snapshot_of = path_of(*dir);
    made.read_only = is_snapshot;
    made.parent = to->ino();
    made.dir_home = to->shared_home();
    made.name = name;
    settle_far_away(made);
    const bool copies = has_own && !linked.homes.empty();
    Copying copying(*this, lock, linked, Ino{state_.next_ino.v + 1});
    if (copies) {
      LSMFS_TRY(copying.add_all(dir->ino(), dir->home(), made.home()));
      LSMFS_TRY(need_room_for_names(copying.bytes() + 2 * kRecordRoom));
    }

    const Time now = Time::now(clock_);
    ++below_changes_;
    ++state_.next_ino.v;
    if (copies) copying.apply();
    else if (has_own) freeze(*dir, xattrs);
    if (is_snapshot) made.record.btime = now;
    made.record.base = dir->record.base;
    if (made.record.has_base()) made.record.shift = drawn_shift();
    made.as_of = layouts_;
    if (copies) made.home_group = made.entries_group = open_group().number;
    Inode& inode = inodes_.insert(std::move(made));
    const std::string home = inode.home();
    rows_.know_below(home);
    for (const auto& [xattr, value] : xattrs) rows_.put_xattr(home, xattr, value);
    inode.xattrs_group = open_group().number;
    if (inode.record.has_base()) rows_.put_user(*keys::number_of(*inode.record.base), inode.record.number(), true);
    changed(inode);
    entry_changed(*to, name, inode.ino());
    tell_below(*to, name);
    count(inode.record, +1);
    touch(to->record, now);
    ++to->record.size;
    ++to->record.nlink;
    changed(*to);
    return {};
  }, Turns::alone);
}

}  // namespace lsmfs
