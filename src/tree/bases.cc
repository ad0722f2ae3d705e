// Bases that nobody has, or that nobody sees all of: what is left to those who share it, is given back when it is not seen any more. What a
// base is, is told in shares.cc.
//
// Whoever takes a use away, or leaves a node, notes it. The background looks: a node without users goes, and of others goes what none of the
// users sees.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tree/blob_rows.h"
#include "tree/lsm_tree.h"
#include "tree/unseen.h"

namespace lsmfs {
namespace {

constexpr int kDroppedAtOnce = 64;         // bases: while the lock is held
constexpr std::size_t kDroppedEntries = 8 * KiB;  // bytes of entries of a directory, in a step
// Of a step of a trim: bytes of keys that are looked at; and blocks that are seen between two that are not, which are looked at with them.
constexpr std::size_t kTrimKeys = 64 * KiB;
constexpr std::uint64_t kTrimOver = 256;

Error damaged_node(Ino number) { return make_error(EUCLEAN, fmt::format("the row of base {} is damaged", number.v)); }

}  // namespace

// A file that is a base has been removed: what it had is left to those who share it.
void LsmTree::leave_to_users(Inode& inode) {
  Record& record = inode.record;
  end_stream(inode);
  rows_.put_node(record.number(), encode(Node{inode.home(), record.size, record.blocks, record.blob_blocks}));
  note_unused(record.number(), open_group().number);
  record.blocks = record.blob_blocks = 0;
  record.is_base = false;
  inode.large.reset();
}

// A file has lost blocks of parts; these were the bases it had before.
void LsmTree::leave_bases(Group& group, Inode& inode, const std::vector<std::string>& bases) {
  const std::vector<std::string> left = inode.large->blobs.bases();
  inode.moved = ++moves_;  // who reads there now finds nothing when they have gone
  for (const std::string& home : bases) {
    const Ino base = *keys::number_of(home);
    if (!std::ranges::binary_search(left, home)) group.batch.erase(Family::names, keys::user(base, inode.record.number()));
    note_unused(base, group.number);
  }
}

// A base has lost something of a user, or its file, with that group.
void LsmTree::note_unused(Ino base, std::uint64_t group) {
  if (!has_bases_to_look_at()) {
    upkeep_.displaced(clock_.now());
    look_again_in_time();
  }
  unused_bases_[base] = group;
}

// Drops some bases that nobody uses any more, and that no file has. False: none is known.
Result<bool> LsmTree::drop_unused() {
  bool any = false;
  const auto done = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    if (unused_bases_.empty() || !can_change()) return {};
    LSMFS_TRY(begin_own_change(lock, Wait::yes));
    for (int looked = 0; !unused_bases_.empty() && looked < kDroppedAtOnce; ++looked) {
      const auto [base, group] = *unused_bases_.begin();
      LSMFS_TRY(settle(lock, group));
      unused_bases_.erase(base);  // it may come on the list again
      const auto dropped = drop_base(lock, base);
      if (!dropped && dropped.error().code == EAGAIN) {
        unused_bases_.try_emplace(base, group);
        return dropped.error();
      }
      LSMFS_TRY(dropped);
      any = true;
    }
    return {};
  });
  LSMFS_TRY(done);
  return any;
}

// False: it is used, or it has gone, or a file has it.
Result<bool> LsmTree::drop_base(const Lock& lock, Ino number) {
  LSMFS_ASSIGN(const bool used, rows_.has_user(lock, number));
  LSMFS_ASSIGN(const auto row, rows_.node(lock, number));
  if (!row) return false;
  const auto node = decode_node(*row);
  if (!node) return damaged_node(number);
  if (used) {
    if (!node->directory) trims_[number] = 0;
    return false;
  }
  if (node->directory) {
    LSMFS_ASSIGN(const bool all, drop_entries(lock, number, node->home));
    if (!all) return true;
    rows_.know_entries(node->home);
  } else {
    LSMFS_TRY(drop_data(lock, number, *node));
    rows_.know_below(node->home);
  }
  rows_.erase_node(number);
  begin_group();
  return true;
}

// The blocks of a base of that number, and what they share.
Result<void> LsmTree::drop_data(const Lock& lock, Ino number, const Node& node) {
  LSMFS_ASSIGN(FileBlobs parts, parts_of(lock, number));
  if (node.blocks > 0) rows_.erase_blocks(node.home, BlockIndex{0}, BlockIndex{block_count(node.size)}, node.blocks);
  const std::vector<std::string> bases = parts.bases();
  state_.blob_waste -= std::min(parts.wasted(), state_.blob_waste);
  GroupBlobRows rows(open_group(), number);
  parts.remove(0, UINT64_MAX, rows);
  for (const std::string& home : bases) {
    const Ino base = *keys::number_of(home);
    rows_.erase_user(base, number);
    note_unused(base, open_group().number);
  }
  state_.data_rows -= std::min(node.blocks, state_.data_rows);
  base_parts_.erase(number);
  open_group().blocks = true;
  begin_group();
  return {};
}

// Some entries of a directory that is a base without users. False: there are more, or may be.
Result<bool> LsmTree::drop_entries(const Lock& lock, Ino number, const std::string& home) {
  const std::string passed = drops_[number];
  LSMFS_ASSIGN(const auto rows, rows_.entries(lock, home, passed, kDroppedEntries));
  if (rows.empty()) {
    drops_.erase(number);
    return true;
  }
  bool any = false;
  for (const auto& [key, row] : rows) {
    const std::string name(keys::entry_name(home, key));
    const auto entry = decode_entry(row);
    const Record* const record = entry ? std::get_if<Record>(&*entry) : nullptr;
    const auto done = record ? drop_entry(lock, home, name, *record) : Result<void>();
    if (!done && done.error().code == EAGAIN) {
      if (!any) return done.error();
      break;  // it comes next
    }
    if (done) rows_.erase_entry(home, name);  // else fsck says so
    drops_[number] = name;
    any = true;
  }
  begin_group();
  note_unused(number, 0);  // again
  return false;
}

// What goes with an entry of such a directory, or is left to those who use it.
Result<void> LsmTree::drop_entry(const Lock& lock, const std::string& home, std::string_view name, const Record& record) {
  const Ino number = record.number();
  const std::string own = record.home_in(home, name);
  if (record.has_base()) {
    const Ino base = *keys::number_of(*record.base);
    rows_.erase_user(base, number);
    note_unused(base, open_group().number);
  } else if (record.is_directory() && record.size > 0) {
    rows_.put_node(number, encode(Node{.home = own, .directory = true}));
    note_unused(number, open_group().number);
  } else if (record.is_regular() && record.all_blocks() > 0) {
    LSMFS_ASSIGN(const bool used, rows_.has_user(lock, number));
    const Node node{.home = own, .size = record.size, .blocks = record.blocks, .blob_blocks = record.blob_blocks};
    if (used) {
      rows_.put_node(number, encode(node));
      note_unused(number, open_group().number);
    } else {
      LSMFS_TRY(drop_data(lock, number, node));
    }
  }
  for (const Xattr& xattr : record.xattrs) {
    if (xattr.row_size > 0) rows_.erase_xattr(own, xattr.name);
  }
  count(record, -1);
  if (!record.home.empty()) state_.counts.displaced -= std::min<std::uint64_t>(1, state_.counts.displaced);
  return {};
}

// Takes out some of what a base has and nobody sees. False: nothing is known to be looked at.
Result<bool> LsmTree::trim_some() {
  bool any = false;
  const auto done = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    any = false;
    if (trims_.empty() || !can_change()) return {};
    LSMFS_TRY(begin_own_change(lock, Wait::yes));
    LSMFS_TRY(settle(lock, history_.last_rows()));  // from here on the rows are what counts
    if (trims_.empty()) return {};
    const auto [base, at] = *trims_.begin();
    const auto more = trim_base(lock, base, at);
    if (!more && more.error().code == EAGAIN) return more.error();
    if (more && *more) trims_[base] = **more;
    else trims_.erase(base);
    any = true;
    return more ? Result<void>() : more.error();
  });
  LSMFS_TRY(done);
  return any;
}

// Blocks of a base from `at` on. Who sees one of them now is who saw it before, or a copy of that one, so what nobody sees stays so. Gives
// from which block on it is to be looked next; nullopt: that was all. Must hold: all is settled.
Result<std::optional<std::uint64_t>> LsmTree::trim_base(const Lock& lock, Ino number, std::uint64_t at) {
  const std::optional<std::uint64_t> all;
  LSMFS_ASSIGN(const auto row, rows_.node(lock, number));
  if (!row) return all;
  auto node = decode_node(*row);
  if (!node) return damaged_node(number);
  LSMFS_ASSIGN(const auto users, rows_.users(lock, number, kTrimUsers));
  if (!users) return all;
  BlockRuns seen;
  for (const auto& [user, whole] : *users) {
    if (whole) return all;
    LSMFS_ASSIGN(const FileBlobs of_user, parts_of(lock, user));
    add_seen(of_user, node->home, seen);
  }
  const std::uint64_t end = block_count(node->size);
  const Unseen unseen = unseen_of(std::move(seen), end);
  const BlockRuns& hidden = unseen.hidden;
  if (unseen.past > end) return damaged_node(number);
  if (unseen.blocks >= node->blocks + node->blob_blocks) return all;

  LSMFS_ASSIGN(FileBlobs parts, parts_of(lock, number));
  std::vector<std::uint64_t> gone;
  std::optional<std::uint64_t> next;
  const auto first = std::ranges::upper_bound(hidden, at, {}, [](const auto& run) { return run.second; });
  if (node->blocks > 0 && first != hidden.end()) {
    auto last = first;
    while (last + 1 != hidden.end() && (last + 1)->first - last->second <= kTrimOver) ++last;
    LSMFS_ASSIGN(gone, rows_.some_blocks(lock, node->home, BlockIndex{std::max(at, first->first)}, BlockIndex{last->second}, kTrimKeys));
    next = gone.empty() ? last->second : gone.back() + 1;
    std::erase_if(gone, [&](std::uint64_t block) {
      const auto run = std::ranges::upper_bound(hidden, block, {}, [](const auto& one) { return one.second; });
      return run == hidden.end() || block < run->first;
    });
    if (gone.size() > node->blocks) return damaged_node(number);
    if (*next >= end) next.reset();
  }

  const std::uint64_t left = at == 0 ? trim_parts(number, parts, hidden) : 0;
  if (left == 0 && gone.empty()) return next;
  rows_.erase_blocks(node->home, gone);
  state_.data_rows -= std::min<std::uint64_t>(gone.size(), state_.data_rows);
  node->blocks -= gone.size();
  node->blob_blocks -= std::min(left, node->blob_blocks);
  rows_.put_node(number, encode(*node));
  begin_group();
  return next;
}

// Takes out of its parts what can go. Gives how many blocks that were.
std::uint64_t LsmTree::trim_parts(Ino number, FileBlobs& parts, const BlockRuns& hidden) {
  const BlockRuns gone = parts_to_go(parts, hidden);
  if (gone.empty()) return 0;
  const std::vector<std::string> bases = parts.bases();
  const std::uint64_t waste = parts.wasted();
  GroupBlobRows rows(open_group(), number);
  std::uint64_t left = 0;
  for (const auto& [from, to] : gone) left += parts.remove(from, to, rows);
  if (left == 0) return 0;
  state_.blob_waste += parts.wasted() - waste;
  const std::vector<std::string> still = parts.bases();
  for (const std::string& home : bases) {
    const Ino base = *keys::number_of(home);
    if (!std::ranges::binary_search(still, home)) rows_.erase_user(base, number);
    note_unused(base, open_group().number);
  }
  base_parts_.erase(number);
  return left;
}

// At mount: some lost their last user, or their file, just before, and others may have what nobody sees. The background finds out which.
Result<void> LsmTree::find_unused() {
  const auto nodes = store_.cursor(Family::names, {.lower = std::string(keys::kNodePrefix), .upper = keys::prefix_end(keys::kNodePrefix),
                                                   .readahead = kRowsReadahead});
  for (nodes->seek(keys::kNodePrefix); nodes->valid(); nodes->next()) {
    const auto number = keys::parse_node(nodes->key());
    if (number) note_unused(*number, 0);  // else fsck says so
  }
  const auto ended = nodes->status();
  if (ended || ended.error().code != EUCLEAN) return ended;
  notice_("what some files have shared cannot be read; it may take space until fsck -y: " + ended.error().context);
  return {};
}

}  // namespace lsmfs
