// Losses: what the store lost with a damaged part of a table (Store::lost), and how it is found again.
//
// A row that is put or erased is known again by that. But the store knows ranges of keys, and only the tree knows which of these can
// have rows: none where no file's blocks are, past the end of a file, or below a home that is new.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// No block from this one on has a row, or can have lost one.
std::uint64_t blocks_there(const Record& record) { return record.blocks > 0 ? block_count(record.size) : 0; }

}  // namespace

// How many of the blocks [from, to) of a sparse file have rows. A row that is lost was one.
Result<std::uint64_t> LsmTree::count_rows(const Lock& lock, const Inode& inode, BlockIndex from, BlockIndex to) {
  if (const RowMap* map = known_rows(inode)) return map->count(from.v, to.v);
  const std::string home = inode.home();
  if (!rows_.blocks_lost(home, from, to)) {
    LSMFS_TRY(settle(lock, inode.blocks_group));
    LSMFS_ASSIGN(const Rows::Blocks there, rows_.blocks(lock, home, from, to, false));
    return there.size();
  }
  if (to.v - from.v == 1) return std::uint64_t{1};
  const BlockIndex middle{from.v + (to.v - from.v) / 2};
  LSMFS_ASSIGN(const std::uint64_t below, count_rows(lock, inode, from, middle));
  LSMFS_ASSIGN(const std::uint64_t above, count_rows(lock, inode, middle, to));
  return below + above;
}

// EUCLEAN: a part of a block is to be changed whose rest is lost.
Result<void> LsmTree::need_block(const Lock& lock, const Inode& inode, BlockIndex index) {
  if (!rows_.has_lost()) return {};
  const std::string home = inode.home();
  const auto lost = [&]() LSMFS_LOCKED { return rows_.blocks_lost(home, index, BlockIndex{index.v + 1}); };
  if (!lost()) return {};
  LSMFS_TRY(settle(lock, inode.blocks_group));  // perhaps it was written meanwhile
  if (!lost()) return {};
  return make_error(EUCLEAN, "the rest of the block is lost");
}

// Before bytes [from, to) of a file are written, where some may be lost: what lies past its end is known, and all of a file without rows.
Result<void> LsmTree::know_written(const Lock& lock, const Inode& inode, std::uint64_t from, std::uint64_t to) {
  if (!rows_.has_lost()) return {};
  const Record& record = inode.record;
  const std::uint64_t there = blocks_there(record);
  const std::uint64_t first = from / kBlockSize, last = (to - 1) / kBlockSize;
  for (const std::uint64_t index : {first, last}) {
    const std::uint64_t start = index * kBlockSize;
    const bool whole = from <= start && to >= std::min(start + kBlockSize, record.size);
    if (index < there && !whole) LSMFS_TRY(need_block(lock, inode, BlockIndex{index}));
  }
  know_past_end(inode, last + 1);
  return {};
}

// The blocks from the end of a file to `to` are as the open group leaves them.
void LsmTree::know_past_end(const Inode& inode, std::uint64_t to) {
  if (rows_.has_lost()) rows_.know_blocks(inode.home(), BlockIndex{blocks_there(inode.record)}, BlockIndex{to});
}

// Nothing of an inode with this home is there but what the open group puts there. Below a directory's lies what was moved out of it, too.
void LsmTree::know_home(const Record& record, const std::string& home) {
  if (record.is_directory()) rows_.know_entries(home);
  else rows_.know_below(home);
}

namespace {

// The record in a row of names, with its home; nullopt: it has none.
std::optional<Record> record_in(std::string_view key, std::string_view value) {
  if (key.starts_with(keys::kLinkedPrefix) || key.starts_with(keys::kOrphanPrefix)) return decode_record(value);
  const auto parsed = keys::parse_names(key);
  if (!parsed || parsed->kind == keys::NamesKey::Kind::xattr) return std::nullopt;
  auto record = decode_record(value);
  if (record && record->home.empty() && parsed->kind == keys::NamesKey::Kind::entry) {
    record->home = keys::child_home(parsed->home, parsed->name, record->number());
  }
  return record;
}

}  // namespace

// The parts of what is lost that somebody owns.
class LsmTree::Owned {
 public:
  explicit Owned(const std::vector<LostRange>& lost) : lost_(lost) {}

  // False: nothing is lost there.
  bool add(Family family, const std::string& from, const std::string& to) {
    const std::size_t before = owned_.size();
    for (const LostRange& range : lost_) {
      if (range.family != family || range.from >= to || from >= range.to) continue;
      owned_.push_back({family, std::max(from, range.from), std::min(to, range.to)});
    }
    return owned_.size() > before;
  }

  // Says that the rest is known.
  void know_rest(Batch& batch, std::uint64_t losses) {
    std::ranges::sort(owned_, {}, &LostRange::from);
    for (const LostRange& range : lost_) {
      std::string at = range.from;
      for (const auto& [family, from, to] : owned_) {
        if (family != range.family || to <= at || from >= range.to) continue;
        batch.know(range.family, at, from, losses);
        at = to;
      }
      batch.know(range.family, at, range.to, losses);
    }
  }

 private:
  const std::vector<LostRange>& lost_;
  std::vector<LostRange> owned_;
};

// Which of what is lost belongs to files and their attributes. The rest is nobody's: whoever had it was removed, or cut off before it. So
// nothing is lost there. Looks at all records, when something is lost; where some of these may be lost, nobody knows whose the rest is.
Result<void> LsmTree::know_what_is_nobodys(const Stop& stop) {
  if (!store_.has_lost()) return {};
  std::vector<LostRange> lost;
  std::uint64_t losses = 0;
  std::vector<std::unique_ptr<Cursor>> cursors;  // over what is not lost, as all of it is at one moment
  const auto looked = attempt(Wait::yes, [&](const Lock& lock) LSMFS_LOCKED -> Result<void> {
    if (!can_change()) return {};
    LSMFS_TRY(settle(lock, history_.last_rows()));
    losses = store_.losses();
    lost = store_.lost();
    if (lost.empty()) return {};
    CursorOptions options{.lower = {}, .upper = {}, .readahead = ByteCount{2 * MiB}, .fill_cache = false};
    for (const LostRange& range : lost) {
      if (range.family != Family::names) continue;
      if (range.from <= keys::kRoot || (range.from < "0" && range.to > keys::kNumberedBegin)) {  // of the tree itself, or by number
        cursors.clear();
        return {};
      }
      options.upper = range.from;
      cursors.push_back(store_.cursor(Family::names, options));
      options.lower = range.to;
    }
    options.upper.clear();
    cursors.push_back(store_.cursor(Family::names, options));
    return {};
  }, Turns::alone);
  if (!looked || cursors.empty()) return looked;
  Owned owned(lost);
  for (const auto& cursor : cursors) {
    for (cursor->seek(""); cursor->valid(); cursor->next()) {
      if (stop()) return make_error(EINTR, "");
      if (const auto node = cursor->key().starts_with(keys::kNodePrefix) ? decode_node(cursor->value()) : std::nullopt) {
        if (node->directory && owned.add(Family::names, keys::entries_begin(node->home), keys::entries_end(node->home))) return {};
        owned.add(Family::blocks, keys::block(node->home, BlockIndex{0}), keys::block(node->home, BlockIndex{block_count(node->size)}));
        continue;
      }
      const auto record = record_in(cursor->key(), cursor->value());
      if (!record) continue;
      const std::string& home = record->home;
      if (record->is_directory() && owned.add(Family::names, keys::entries_begin(home), keys::entries_end(home))) return {};
      if (std::ranges::any_of(record->xattrs, [](const Xattr& xattr) { return xattr.row_size > 0; })) {
        owned.add(Family::names, keys::xattr(home, ""), keys::entries_begin(home));
      }
      if (record->is_regular() && record->blocks > 0) {
        owned.add(Family::blocks, keys::block(home, BlockIndex{0}), keys::block(home, BlockIndex{block_count(record->size)}));
      }
    }
    // More is damaged than is known to be lost: the scrub tells it, and a later one knows more.
    if (const auto read = cursor->status(); !read) return read.error().code == EUCLEAN ? Result<void>() : read;
  }
  Lock lock(mutex_);
  if (!can_change()) return {};
  owned.know_rest(batch(), losses);
  begin_group();
  open_group().blocks = true;
  return commit_all(lock);
}

}  // namespace lsmfs
