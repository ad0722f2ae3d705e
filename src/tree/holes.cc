// Holes: making them (fallocate) and finding them (SEEK_DATA, SEEK_HOLE). A hole is where no row is.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<void> LsmTree::fallocate(Ino ino, int mode, ByteOffset offset, ByteCount length, Wait wait) {
  const bool punch = mode & FALLOC_FL_PUNCH_HOLE, zero = mode & FALLOC_FL_ZERO_RANGE;
  const bool keep_size = mode & FALLOC_FL_KEEP_SIZE;
  if (mode & ~(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)) return make_error(EOPNOTSUPP, "");
  if (punch && (zero || !keep_size)) return make_error(EOPNOTSUPP, "");
  if (length.v == 0) return make_error(EINVAL, "");
  if (offset.v > kFileSizeMax || length.v > kFileSizeMax - offset.v) return make_error(EFBIG, "");
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * inode, find(ino));
  if (inode->record.is_directory()) return make_error(EISDIR, "");
  if (!inode->record.is_regular()) return make_error(ENODEV, "");
  LSMFS_TRY(may_allocate(inode->record, mode & ~FALLOC_FL_KEEP_SIZE));
  // Nothing can be set aside in a store that compresses; what would not fit now is refused.
  LSMFS_TRY(need_room(punch || zero ? kRecordRoom : length.v + kRecordRoom));

  Record& record = inode->record;
  const std::uint64_t end = offset.v + length.v;
  if (punch || zero) LSMFS_TRY(make_hole(lock, *inode, offset.v, std::min(end, record.size), wait));
  if (!keep_size && end > record.size) {
    open_->put_tail();
    record.size = end;
  }
  record.mtime = record.ctime = Time::now();
  changed(*inode);
  return {};
}

// Makes [from, to) of a file read as zeros. Must hold: to is at most the file's size.
Result<void> LsmTree::make_hole(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to, Wait wait) {
  Record& record = inode.record;
  if (from >= to || record.blocks == 0) return {};
  const std::string home = inode.home();
  const std::uint64_t first = from / kBlockSize, last = (to - 1) / kBlockSize;
  // A row past which the file ends goes as a whole when all that is before the end goes.
  const auto goes = [&](std::uint64_t index) {
    const std::uint64_t start = index * kBlockSize;
    return from <= start && to >= std::min(start + kBlockSize, record.size);
  };
  const std::uint64_t whole_from = goes(first) ? first : first + 1;
  const std::uint64_t whole_to = std::max(whole_from, goes(last) ? last + 1 : last);

  std::uint64_t gone = whole_to - whole_from;
  bool first_exists = true, last_exists = true;
  if (record.is_sparse()) {
    // In a sparse file, which rows there are must be looked up, also because a patch would make one.
    LSMFS_ASSIGN(const Rows rows, load_blocks(lock, inode, BlockIndex{first}, BlockIndex{last + 1}, false, wait));
    first_exists = !rows.empty() && rows.front().first == keys::block(home, BlockIndex{first});
    last_exists = !rows.empty() && rows.back().first == keys::block(home, BlockIndex{last});
    gone = static_cast<std::uint64_t>(std::count_if(rows.begin(), rows.end(), [&](const auto& row) {
      return row.first >= keys::block(home, BlockIndex{whole_from}) && row.first < keys::block(home, BlockIndex{whole_to});
    }));
  }
  open_->put_tail();
  const auto zero_part = [&](std::uint64_t index) {
    const std::uint64_t start = index * kBlockSize;
    const std::uint64_t at = std::max(from, start), until = std::min(to, start + kBlockSize);
    batch().patch(Family::blocks, keys::block(home, BlockIndex{index}), static_cast<std::uint32_t>(at - start),
                  std::string(until - at, '\0'));
  };
  if (first < whole_from && first_exists) zero_part(first);
  if (last >= whole_to && last != first && last_exists) zero_part(last);
  if (gone > 0) erase_blocks(home, BlockIndex{whole_from}, BlockIndex{whole_to});
  record.blocks -= std::min(gone, record.blocks);
  blocks_changed(inode);
  return {};
}

Result<ByteOffset> LsmTree::seek(Ino ino, ByteOffset offset, int whence, Wait wait) {
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return make_error(EINVAL, "");
  const bool data = whence == SEEK_DATA;
  std::string home;
  std::uint64_t size = 0;
  {
    LSMFS_ASSIGN(const Lock lock, acquire(wait));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    size = inode->record.size;
    if (!inode->record.is_regular()) return make_error(EINVAL, "");
    if (offset.v >= size) return make_error(ENXIO, "");
    if (!inode->record.is_sparse()) return data ? offset : ByteOffset{size};
    if (inode->record.blocks == 0) return data ? Result<ByteOffset>(make_error(ENXIO, "")) : Result<ByteOffset>(offset);
    if (wait == Wait::no) return make_error(EAGAIN, "");  // the rows may be many
    LSMFS_TRY(settle(lock, inode->blocks_group, wait));
    home = inode->home();
  }
  const std::uint64_t first = offset.v / kBlockSize;
  const std::string lower = keys::block(home, BlockIndex{first});
  auto cursor = store_.cursor(Family::blocks, {.lower = lower, .upper = keys::block(home, BlockIndex{block_count(size)}),
                                               .wait = wait, .fill_cache = false});
  std::uint64_t index = first;
  for (cursor->seek(lower); cursor->valid(); cursor->next(), ++index) {
    if (cursor->key() == keys::block(home, BlockIndex{index})) {
      if (data) return ByteOffset{std::max(offset.v, index * kBlockSize)};
      continue;
    }
    if (!data) break;  // a gap
    const auto found = keys::block_index(cursor->key(), home.size());
    if (!found) return make_error(EUCLEAN, "a row of file data has a malformed key");
    return ByteOffset{std::max(offset.v, *found * kBlockSize)};
  }
  LSMFS_TRY(cursor->status());
  if (data) return make_error(ENXIO, "");
  return ByteOffset{std::min(std::max(offset.v, index * kBlockSize), size)};
}

}  // namespace lsmfs
