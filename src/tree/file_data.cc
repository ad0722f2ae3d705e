// File data: rows of up to kBlockSize bytes in family blocks. A row may be shorter than what the
// file holds there; what is missing, like a row that does not exist, reads as zeros. No row holds
// bytes past the end of its file: truncation cuts the last one.
#include <algorithm>

#include "tree/block_cursor.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::int64_t kRelatimeSeconds = 24 * 3600;

}  // namespace

// Erases rows [from, to), most of which exist.
void LsmTree::erase_blocks(const std::string& home, BlockIndex from, BlockIndex to) {
  if (from >= to) return;
  open_group().blocks = true;
  open_group().put_tail();
  if (to.v - from.v > kPointEraseMax) {
    batch().erase_range(Family::blocks, keys::block(home, from), keys::block(home, to), to.v - from.v);
    return;
  }
  for (std::uint64_t i = from.v; i < to.v; ++i) batch().erase(Family::blocks, keys::block(home, BlockIndex{i}));
}

void LsmTree::erase_some(const std::string& home, const std::vector<std::uint64_t>& blocks) {
  open_group().blocks = true;
  open_group().put_tail();
  for (const std::uint64_t block : blocks) batch().erase(Family::blocks, keys::block(home, BlockIndex{block}));
}

// The rows [from, to) of a file that exist; without `values` their keys only.
Result<LsmTree::Rows> LsmTree::load_blocks(const Lock& lock, const Inode& inode, BlockIndex from, BlockIndex to,
                                           bool values) {
  LSMFS_TRY(settle(lock, inode.blocks_group));
  if (from >= to) return Rows();
  const std::string home = inode.home();
  const Fetched::Range range{.family = Family::blocks, .from = keys::block(home, from), .upper = keys::block(home, to), .values = values};
  const Fetched::Rows* const fetched = lock.fetched().find(range);
  Fetched::Rows found = fetched ? *fetched : read_rows(store_, range, Wait::no);
  if (!found.end && found.end.error().code == EAGAIN) want(lock, range);
  LSMFS_TRY(found.end);
  for (const auto& [key, value] : found.rows) {
    if (!keys::block_index(key, home.size()) || value.size() > kBlockSize) return make_error(EUCLEAN, "a row of file data is damaged");
  }
  return std::move(found.rows);
}

// `seen`: of the same operation, for see().
Result<void> LsmTree::resize(const Lock& lock, Inode& inode, std::uint64_t size, Result<SeenBlocks>& seen) {
  Record& record = inode.record;
  const BlockIndex old_blocks{block_count(record.size)}, new_blocks{block_count(size)};
  open_group().put_tail();
  if (NewFile* const file = open_group().find_new(inode.ino())) {
    open_group().cut_new(*file, size);
    set_blocks(inode, file->rows.size());
    blocks_changed(inode);
  } else if (size < record.size && record.blocks > 0) {
    const std::string home = inode.home();
    const bool within = size % kBlockSize != 0;
    const BlockIndex last{within ? new_blocks.v - 1 : new_blocks.v};  // within: of the row that stays and is cut
    if (within) LSMFS_TRY(need_block(lock, inode, last));
    const auto cut = [&] { batch().cut(Family::blocks, keys::block(home, last), static_cast<std::uint32_t>(size % kBlockSize)); };
    SeenBlocks wanted = blocks_to_see(inode, size, record.size);
    if (wanted.from == wanted.to) {
      erase_blocks(home, new_blocks, old_blocks);
      if (within) cut();
      set_blocks(inode, new_blocks.v);
    } else {
      LSMFS_ASSIGN(SeenBlocks there, see(lock, inode, std::move(wanted), seen));
      const bool cuts = within && there.has(last);  // else a cut would make a row
      const std::uint64_t gone = there.rows - (cuts ? 1 : 0);
      if (cuts) cut();
      erase_seen(std::move(there), new_blocks, old_blocks, gone);
      set_blocks(inode, record.blocks - std::min(gone, record.blocks));
    }
    blocks_changed(inode);
  }
  if (size > record.size) before_holes(inode);
  know_past_end(inode, new_blocks.v);
  if (inode.rows) inode.rows->remove(new_blocks.v, old_blocks.v);
  record.size = size;
  after_holes(inode);
  return {};
}

// Writes `bytes` at `at` in a block. `replaces`: nothing that the row holds now is left of it. Must
// hold: a tail in the open group is of this block.
void LsmTree::put_part(Ino ino, const std::string& home, std::uint64_t index, std::size_t at, std::string_view bytes, bool replaces) {
  std::optional<Tail>& tail = open_group().tail;
  if (!tail) {
    std::string key = keys::block(home, BlockIndex{index});
    if (!replaces) return batch().patch(Family::blocks, key, static_cast<std::uint32_t>(at), bytes);
    if (bytes.size() == kBlockSize) return batch().put(Family::blocks, key, bytes);
    tail = Tail{ino, index, std::move(key), {}};
  }
  tail->bytes.resize(std::max(tail->bytes.size(), at + bytes.size()));
  bytes.copy(tail->bytes.data() + at, bytes.size());
  if (tail->bytes.size() == kBlockSize) open_group().put_tail();
}

Result<void> LsmTree::write(Ino ino, ByteOffset offset, Bytes data, Wait wait) {
  return attempt(wait, [&](Lock& lock) -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait, ino));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    if (inode->record.is_directory()) return make_error(EISDIR, "");
    if (!inode->record.is_regular()) return make_error(EINVAL, "");
    if (data.empty()) return {};
    if (offset.v > kFileSizeMax || data.size() > kFileSizeMax - offset.v) return make_error(EFBIG, "");
    LSMFS_TRY(may_write(inode->record, offset.v));
    Record& record = inode->record;
    const std::uint64_t end = offset.v + data.size();
    const std::uint64_t first = offset.v / kBlockSize, last = (end - 1) / kBlockSize;
    const std::uint64_t old_blocks = block_count(record.size);
    const std::string home = inode->home();

    // A file without rows is a new one of this group, as long as it is small.
    const bool small = last < kMoveBlocksMax;
    if (!small) open_group().release_new(ino);
    if (small && record.blocks == 0) open_group().new_files[ino].home = home;
    NewFile* const file = open_group().find_new(ino);

    // Rows that are new add to the file's blocks. In a file without holes those are the ones past its
    // end; only in a sparse file does it take a look.
    std::uint64_t existing = 0;
    if (!file && first < old_blocks) {
      const std::uint64_t until = std::min(last + 1, old_blocks);
      existing = until - first;
      if (record.is_sparse()) {
        LSMFS_ASSIGN(existing, count_rows(lock, *inode, BlockIndex{first}, BlockIndex{until}));
      }
    }
    LSMFS_TRY(know_written(lock, *inode, offset.v, end));
    if (file) existing = static_cast<std::uint64_t>(std::distance(file->rows.lower_bound(first), file->rows.upper_bound(last)));
    if (const std::uint64_t more = last - first + 1 - existing; more > 0) {
      LSMFS_TRY(need_rows(more));
    } else {
      LSMFS_TRY(need_room_to_replace(data.size()));
    }
    if (!file && open_group().tail && !(open_group().tail->ino == ino && open_group().tail->index == first)) open_group().put_tail();
    if (first > old_blocks) before_holes(*inode);
    for (std::uint64_t index = first; index <= last; ++index) {
      const std::uint64_t start = index * kBlockSize;
      const std::uint64_t from = std::max(offset.v, start), to = std::min(end, start + kBlockSize);
      const std::string_view bytes = as_text(data.subspan(from - offset.v, to - from));
      if (file) {
        open_group().write_new(*file, index, from - start, bytes);
        continue;
      }
      const bool no_row = index >= old_blocks;
      // The row's bytes before the write end here at the latest.
      const std::uint64_t old_end = no_row ? start : std::min(record.size, start + kBlockSize);
      put_part(ino, home, index, from - start, bytes, no_row || (from == start && to >= old_end));
    }
    set_blocks(*inode, file ? file->rows.size() : record.blocks + last - first + 1 - existing);
    record.size = std::max(record.size, end);
    if (inode->rows) inode->rows->add(first, last + 1);
    after_holes(*inode);
    record.mtime = record.ctime = Time::now(clock_);
    open_group().written = ino;
    blocks_changed(*inode);
    changed(*inode);
    return {};
  });
}

void LsmTree::note_access_time(Inode& inode) {
  if (!can_change() || options_.atime == AtimePolicy::noatime) return;
  Record& record = inode.record;
  if (record.flags & FS_NOATIME_FL) return;
  if (record.is_directory() && !options_.directory_atime) return;
  const Time now = Time::now(clock_);
  if (options_.atime == AtimePolicy::relatime && record.atime > record.mtime && record.atime > record.ctime &&
      record.atime.seconds > now.seconds - kRelatimeSeconds) {
    return;
  }
  record.atime = now;
  changed(inode);
}

Result<std::size_t> LsmTree::read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime) {
  return with_steady_home(ino, [&]() -> Result<std::size_t> {
    struct Place {
      std::string home;
      std::uint64_t size, blocks, epoch;
    };
    LSMFS_ASSIGN(const Place place, attempt(wait, [&](Lock& lock) -> Result<Place> {
      pass_on_for_access(lock);
      LSMFS_ASSIGN(Inode * inode, find(ino));
      const Record& record = inode->record;
      if (record.is_directory()) return make_error(EISDIR, "");
      if (!record.is_regular()) return make_error(EINVAL, "");
      LSMFS_TRY(settle(lock, inode->blocks_group));
      if (atime == AccessTime::now) note_access_time(*inode);
      return Place{inode->home(), record.size, record.blocks, blocks_epoch_};
    }));
    if (offset.v >= place.size) return std::size_t{0};
    const std::size_t n = std::min<std::uint64_t>(to.size(), place.size - offset.v);
    if (n > 0 && place.blocks == 0) {
      std::fill_n(to.data(), n, std::byte{0});
    } else if (n > 0) {
      LSMFS_TRY(read_blocks(place.home, offset, to.first(n), place.epoch, wait));
    }
    return n;
  });
}

// Fills `to` from the rows under `home`, zeros where there are none. `epoch` is that of the tree when
// the home was looked up: a parked cursor of the same epoch shows the same rows.
Result<std::size_t> LsmTree::read_blocks(const std::string& home, ByteOffset offset, MutableBytes to,
                                         std::uint64_t epoch, Wait wait) {
  const std::uint64_t end = offset.v + to.size();
  const BlockIndex first{offset.v / kBlockSize}, after{(end - 1) / kBlockSize + 1};
  const std::string begin_key = keys::block(home, first), end_key = keys::block(home, after);
  blocks_ahead_.note(begin_key, end_key, wait, to.size());
  if (wait == Wait::yes) blocks_ahead_.wait_for(begin_key, end_key);

  const bool parkable = wait == Wait::no;
  ParkedCursors::Place place;
  if (parkable) place = parked_blocks_.take(epoch, begin_key);
  auto& cursor = place.cursor;
  const bool there = place.is_at(begin_key);
  if (!cursor) cursor = store_.cursor(Family::blocks, {.lower = {}, .upper = parkable ? std::string() : end_key, .wait = wait});
  if (!there) cursor->seek(begin_key);
  place.passed = begin_key;

  std::uint64_t filled = offset.v;  // bytes of the file before this are in `to` already
  auto zero_until = [&](std::uint64_t position) {
    if (position > filled) std::fill_n(to.data() + (filled - offset.v), position - filled, std::byte{0});
    filled = std::max(filled, position);
  };
  BlockCursor blocks(*cursor, home, after);
  for (; blocks.valid(); blocks.next()) {
    place.passed = cursor->key();
    const std::string_view value = blocks.bytes();
    const std::uint64_t start = blocks.index().v * kBlockSize;
    const std::uint64_t from = std::max(start, offset.v), until = std::min(start + value.size(), end);
    zero_until(from);
    if (from < until) {
      std::memcpy(to.data() + (from - offset.v), value.data() + (from - start), until - from);
      filled = until;
    }
    if (start + kBlockSize >= end) break;  // the row after it may not be in memory, and is not needed
  }
  LSMFS_TRY(blocks.status());
  zero_until(end);
  if (parkable) {
    if (cursor->valid() && cursor->key() < end_key) cursor->next();  // where the next read may begin
    if (cursor->status()) parked_blocks_.park(std::move(place), epoch);
  }
  return to.size();
}

}  // namespace lsmfs
