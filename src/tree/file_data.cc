// File data: rows of up to kBlockSize bytes in family blocks. A row may be shorter than what the
// file holds there; what is missing, like a row that does not exist, reads as zeros. No row holds
// bytes past the end of its file: truncation cuts the last one.
#include <algorithm>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::int64_t kRelatimeSeconds = 24 * 3600;

}  // namespace

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
    const auto cut = [&]() LSMFS_LOCKED { rows_.cut_block(home, last, size % kBlockSize); };
    SeenBlocks wanted = blocks_to_see(inode, size, record.size);
    if (wanted.from == wanted.to) {
      rows_.erase_blocks(home, new_blocks, old_blocks, record.blocks - std::min(new_blocks.v, record.blocks));
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

Result<void> LsmTree::write(Ino ino, ByteOffset offset, Bytes data, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
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
      rows_.write_block(ino, home, BlockIndex{index}, from - start, bytes, no_row || (from == start && to >= old_end));
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
    LSMFS_ASSIGN(const Place place, attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Place> {
      pass_on_for_access(lock);
      LSMFS_ASSIGN(Inode * inode, find(ino));
      const Record& record = inode->record;
      if (record.is_directory()) return make_error(EISDIR, "");
      if (!record.is_regular()) return make_error(EINVAL, "");
      LSMFS_TRY(settle(lock, inode->blocks_group));
      if (atime == AccessTime::now) note_access_time(*inode);
      return Place{inode->home(), record.size, record.blocks, rows_.epoch()};
    }));
    if (offset.v >= place.size) return std::size_t{0};
    const std::size_t n = std::min<std::uint64_t>(to.size(), place.size - offset.v);
    if (n > 0 && place.blocks == 0) {
      std::fill_n(to.data(), n, std::byte{0});
    } else if (n > 0) {
      LSMFS_TRY(rows_.read(place.home, offset, to.first(n), place.epoch, wait));
    }
    return n;
  });
}

}  // namespace lsmfs
