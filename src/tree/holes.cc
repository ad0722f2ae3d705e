// Holes: making them (fallocate) and finding them (SEEK_DATA, SEEK_HOLE). A hole is where no row is.
//
// What is taken out of a sparse file, by a hole or a truncation, has to be looked at before: how many rows go is part of
// the file's record, and a patch or a cut of a row that is not there would make one. The rows may be many, so only
// what is needed of them is kept (see), and the operation takes what was seen if it still holds.
#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <utility>

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
  Result<SeenBlocks> seen = SeenBlocks();
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    if (inode->record.is_directory()) return make_error(EISDIR, "");
    if (!inode->record.is_regular()) return make_error(ENODEV, "");
    LSMFS_TRY(may_allocate(*inode, mode & ~FALLOC_FL_KEEP_SIZE));
    Record& record = inode->record;
    const std::uint64_t end = offset.v + length.v;
    // Nothing can be set aside in a store that compresses; what would not fit now is refused, but not what is there or gives room back.
    const std::uint64_t past_end = end - std::min(end, std::max(offset.v, record.size));
    const std::uint64_t holes = (block_count(record.size) - std::min(record.all_blocks(), block_count(record.size))) * kBlockSize;
    const std::uint64_t missing = std::min(past_end + holes, length.v);
    if (!punch && !zero && missing > 0) LSMFS_TRY(need_room(missing));

    if (punch || zero || inode->implicit || record.has_base()) LSMFS_TRY(unshare(lock, *inode));
    if (punch || zero) LSMFS_TRY(make_hole(lock, *inode, offset.v, std::min(end, record.size), seen));
    if (!keep_size && end > record.size) {
      open_group().put_tail();
      before_holes(*inode);
      know_past_end(*inode, block_count(end));
      record.size = end;
      after_holes(*inode);
    }
    record.mtime = record.ctime = Time::now(clock_);
    changed(*inode);
    tell(*inode);
    return {};
  });
}

// The blocks that bytes [from, to) of a file touch, if these have to be looked at before the bytes are taken away.
LsmTree::SeenBlocks LsmTree::blocks_to_see(const Inode& inode, std::uint64_t from, std::uint64_t to) const {
  const Record& record = inode.record;
  to = std::min(to, record.size);
  if (from >= to || record.blocks == 0 || !record.is_sparse()) return {};
  // All rows that there are go, too many to know them one by one, or perhaps some that nobody knows any more.
  if (from == 0 && to == record.size && (record.blocks > Rows::kPointEraseMax || rows_.has_lost())) return {};
  return {.from = BlockIndex{from / kBlockSize}, .to = BlockIndex{block_count(to)}, .home = inode.home(), .group = inode.blocks_group};
}

// What is to be seen of `wanted`. Where nobody knows it, EAGAIN, and `lock` wants a look, which puts what it finds into `seen`. That
// holds when the operation is begun again, unless somebody has changed the blocks since.
Result<LsmTree::SeenBlocks> LsmTree::see(const Lock& lock, const Inode& inode, SeenBlocks wanted, Result<SeenBlocks>& seen) {
  if (const RowMap* rows = known_rows(inode)) {
    wanted.rows = rows->count(wanted.from.v, wanted.to.v);
    wanted.some = rows->first(wanted.from.v, wanted.to.v, Rows::kPointEraseMax + 2);
    wanted.last = rows->last(wanted.from.v, wanted.to.v).value_or(0);
    return wanted;
  }
  if (!seen || (seen->from == wanted.from && seen->to == wanted.to && seen->group == wanted.group && seen->home == wanted.home)) return seen;
  LSMFS_TRY(settle(lock, inode.blocks_group));
  lock.want([this, &seen, wanted = std::move(wanted)] { seen = look(wanted); });
  return make_error(EAGAIN, "");
}

Result<LsmTree::SeenBlocks> LsmTree::look(SeenBlocks seen) const {
  BlockCursor blocks = rows_.walk(seen.home, seen.from, seen.to, Wait::yes);
  for (; blocks.valid(); blocks.next()) {
    ++seen.rows;
    seen.last = blocks.index().v;
    if (seen.some.size() < Rows::kPointEraseMax + 2) seen.some.push_back(seen.last);
  }
  LSMFS_TRY(blocks.status());
  return seen;
}

// Erases the rows [from, to), of which so many were seen, and two more at most that are not erased.
void LsmTree::erase_seen(SeenBlocks seen, BlockIndex from, BlockIndex to, std::uint64_t rows) {
  if (rows > Rows::kPointEraseMax) return rows_.erase_blocks(seen.home, from, to, rows);
  std::erase_if(seen.some, [&](std::uint64_t index) { return index < from.v || index >= to.v; });
  rows_.erase_blocks(seen.home, seen.some);
}

// Makes [from, to) of a file read as zeros. Must hold: to is at most the file's size. `seen`: of the same operation, for see().
Result<void> LsmTree::make_hole(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to, Result<SeenBlocks>& seen) {
  Record& record = inode.record;
  assert(from >= to || to <= record.size);
  if (from >= to || record.all_blocks() == 0) return {};
  open_group().release_new(inode.ino());
  const std::string home = inode.home();
  const BlockIndex first{from / kBlockSize}, last{(to - 1) / kBlockSize};
  // A row past which the file ends goes as a whole when all that is before the end goes.
  const auto goes = [&](BlockIndex index) {
    const std::uint64_t start = index.v * kBlockSize;
    return from <= start && to >= std::min(start + kBlockSize, record.size);
  };
  const BlockIndex whole_from{goes(first) ? first.v : first.v + 1};
  const BlockIndex whole_to{std::max(whole_from.v, goes(last) ? last.v + 1 : last.v)};
  LSMFS_ASSIGN(const std::uint64_t in_blobs, settled_in_blobs(lock, inode, first.v, last.v + 1));
  if (in_blobs > 0) {
    if (first < whole_from) LSMFS_TRY(make_rows(lock, inode, first.v, first.v + 1));
    if (last >= whole_to) LSMFS_TRY(make_rows(lock, inode, last.v, last.v + 1));
  }
  const bool has_rows = record.blocks > 0;  // else all of it lies in parts or is a hole
  bool zero_first = has_rows && first < whole_from, zero_last = has_rows && last >= whole_to && last != first;

  SeenBlocks wanted = blocks_to_see(inode, from, to);
  const bool all_exist = wanted.from == wanted.to;  // or all go
  std::uint64_t gone = whole_to.v - whole_from.v - (in_blobs > 0 ? inode.large->blobs.live(whole_from.v, whole_to.v) : 0);
  SeenBlocks there;
  if (!all_exist) {
    LSMFS_ASSIGN(there, see(lock, inode, std::move(wanted), seen));
    zero_first = zero_first && there.has(first);
    zero_last = zero_last && there.has(last);
    gone = there.rows - (zero_first ? 1 : 0) - (zero_last ? 1 : 0);
  }
  if (zero_first) LSMFS_TRY(need_block(lock, inode, first));
  if (zero_last) LSMFS_TRY(need_block(lock, inode, last));
  open_group().put_tail();
  before_holes(inode);
  const auto zero_part = [&](BlockIndex index) LSMFS_LOCKED {
    const std::uint64_t start = index.v * kBlockSize;
    const std::uint64_t at = std::max(from, start), until = std::min(to, start + kBlockSize);
    rows_.patch_block(home, index, at - start, std::string(until - at, '\0'));
  };
  if (zero_first) zero_part(first);
  if (zero_last) zero_part(last);
  if (all_exist) {
    rows_.erase_blocks(home, whole_from, whole_to, std::min(gone, record.blocks));
  } else {
    erase_seen(std::move(there), whole_from, whole_to, gone);
  }
  set_blocks(inode, record.blocks - std::min(gone, record.blocks));
  if (in_blobs > 0) leave_blobs(open_group(), inode, whole_from.v, whole_to.v);
  if (inode.rows) inode.rows->remove(whole_from.v, whole_to.v);
  after_holes(inode);
  blocks_changed(inode);
  return {};
}

Result<ByteOffset> LsmTree::seek(Ino ino, ByteOffset offset, int whence, Wait wait) {
  if (whence != SEEK_DATA && whence != SEEK_HOLE) return make_error(EINVAL, "");
  const bool data = whence == SEEK_DATA;
  return with_steady_home(ino, [&]() -> Result<ByteOffset> {
    struct Place {
      std::optional<ByteOffset> found;  // without a look at the rows
      std::string home;
      std::uint64_t size = 0;
      FileBlobs blobs;
    };
    LSMFS_ASSIGN(const Place place, attempt(wait, [&](const Lock& lock) LSMFS_LOCKED -> Result<Place> {
      LSMFS_ASSIGN(Inode * inode, find(ino));
      const std::uint64_t size = inode->record.size;
      const auto found = [](std::uint64_t at) { return Place{.found = ByteOffset{at}, .home = {}, .size = 0, .blobs = {}}; };
      if (!inode->record.is_regular()) return make_error(EINVAL, "");
      if (offset.v >= size) return make_error(ENXIO, "");
      if (!inode->record.is_sparse()) return found(data ? offset.v : size);
      if (inode->record.all_blocks() == 0 && data) return make_error(ENXIO, "");
      if (inode->record.all_blocks() == 0) return found(offset.v);
      if (const RowMap* rows = known_rows(*inode)) {
        const std::uint64_t block = offset.v / kBlockSize;
        if (!data) return found(std::min(std::max(offset.v, rows->next_hole(block) * kBlockSize), size));
        const auto next = rows->next(block);
        if (!next) return make_error(ENXIO, "");
        return found(std::max(offset.v, *next * kBlockSize));
      }
      if (wait == Wait::no) return make_error(EAGAIN, "");  // the rows may be many
      LSMFS_TRY(settle(lock, inode->blocks_group));
      Place place{.found = {}, .home = inode->data_home(), .size = size, .blobs = {}};
      if (inode->record.blob_blocks > 0) {
        LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, *inode));
        place.blobs = large->blobs;
      }
      return place;
    }));
    if (place.found) return *place.found;
    std::uint64_t index = offset.v / kBlockSize;
    BlockCursor blocks = rows_.walk(place.home, BlockIndex{index}, BlockIndex{block_count(place.size)}, wait);
    std::vector<FileBlobs::Run> in_blobs = place.blobs.runs(index, block_count(place.size));
    std::erase_if(in_blobs, [](const FileBlobs::Run& run) { return !run.part; });
    if (data) {
      const bool valid = blocks.valid();
      if (!valid) LSMFS_TRY(blocks.status());
      if (!valid && in_blobs.empty()) return make_error(ENXIO, "");
      const std::uint64_t next = std::min(valid ? blocks.index().v : UINT64_MAX, in_blobs.empty() ? UINT64_MAX : in_blobs.front().from);
      return ByteOffset{std::max(offset.v, next * kBlockSize)};
    }
    for (auto run = in_blobs.begin();;) {
      if (run != in_blobs.end() && run->from == index) {
        index = run++->to;
      } else if (blocks.valid() && blocks.index().v == index) {
        ++index;
        blocks.next();
      } else {
        break;
      }
    }
    if (!blocks.valid()) LSMFS_TRY(blocks.status());
    return ByteOffset{std::min(std::max(offset.v, index * kBlockSize), place.size)};
  });
}

}  // namespace lsmfs
