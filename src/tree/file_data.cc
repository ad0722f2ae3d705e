// File data: rows of up to kBlockSize bytes in family blocks. A row may be shorter than what the
// file holds there; what is missing, like a row that does not exist, reads as zeros. No row holds
// bytes past the end of its file: truncation cuts the last one.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "lsmfs/device.h"
#include "tree/block_patch.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::int64_t kRelatimeSeconds = 24 * 3600;
constexpr std::uint64_t kReadOver = 16;  // blocks

}  // namespace

// `seen`: of the same operation, for see().
Result<void> LsmTree::resize(const Lock& lock, Inode& inode, std::uint64_t size, Result<SeenBlocks>& seen) {
  LSMFS_TRY(unshare(lock, inode));
  Record& record = inode.record;
  const BlockIndex old_blocks{block_count(record.size)}, new_blocks{block_count(size)};
  LSMFS_ASSIGN(const std::uint64_t in_blobs, settled_in_blobs(lock, inode, size / kBlockSize, old_blocks.v));
  if (in_blobs > 0 && size % kBlockSize != 0) LSMFS_TRY(make_rows(lock, inode, new_blocks.v - 1, new_blocks.v));
  streaks_.end(inode.ino());
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
      // Of a sparse file all rows go, of another all that its blobs do not have.
      const std::uint64_t live = in_blobs > 0 ? inode.large->blobs.live(new_blocks.v, old_blocks.v) : 0;
      const std::uint64_t gone = std::min(record.is_sparse() ? record.blocks : old_blocks.v - new_blocks.v - live, record.blocks);
      if (gone > 0) rows_.erase_blocks(home, new_blocks, old_blocks, gone);
      if (within) cut();
      set_blocks(inode, record.blocks - gone);
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
  if (in_blobs > 0) {
    leave_blobs(open_group(), inode, new_blocks.v, old_blocks.v);
    blocks_changed(inode);
  }
  if (size > record.size) before_holes(inode);
  know_past_end(inode, new_blocks.v);
  if (inode.rows) inode.rows->remove(new_blocks.v, old_blocks.v);
  record.size = size;
  after_holes(inode);
  return {};
}

Result<void> LsmTree::write(Ino ino, ByteOffset offset, Bytes data, Wait wait, ChangeTime time) {
  MadeBlob made;
  for (;;) {
    std::uint64_t full_of_waste = 0;  // a blob that is to be dissolved before
    auto done = attempt(wait, [&](Lock& lock) LSMFS_LOCKED { return write(lock, wait, ino, offset, data, time, made, full_of_waste); });
    if (full_of_waste == 0 || wait == Wait::no) {
      if (made.writer && *made.writer && !made.taken) {
        made.writer.reset();
        drop_blob(made.number);
      }
      return done;
    }
    LSMFS_TRY(dissolve(ino, full_of_waste));
  }
}

Result<void> LsmTree::write(Lock& lock, Wait wait, Ino ino, ByteOffset offset, Bytes data, ChangeTime time, MadeBlob& made,
                            std::uint64_t& full_of_waste) {
  full_of_waste = 0;
  LSMFS_TRY(begin_change(lock, wait, ino));
  LSMFS_ASSIGN(Inode * inode, find(ino));
  if (inode->record.is_directory()) return make_error(EISDIR, "");
  if (!inode->record.is_regular()) return make_error(EINVAL, "");
  if (data.empty()) return {};
  if (offset.v > kFileSizeMax || data.size() > kFileSizeMax - offset.v) return make_error(EFBIG, "");
  LSMFS_TRY(may_write(*inode, offset.v));
  LSMFS_TRY(unshare(lock, *inode));
  Record& record = inode->record;
  const std::uint64_t end = offset.v + data.size();
  const std::uint64_t first = offset.v / kBlockSize, last = (end - 1) / kBlockSize;
  const std::uint64_t old_blocks = block_count(record.size);
  const std::string home = inode->home();
  // All of a block is written, or all that it has.
  const auto is_whole = [&](std::uint64_t index) {
    const std::uint64_t start = index * kBlockSize;
    return offset.v <= start && end >= std::min(start + kBlockSize, std::max(record.size, start));
  };

  // A file without blocks is a new one of this group, as long as it is small.
  const bool small = last < kMoveBlocksMax;
  if (!small || record.blob_blocks > 0) open_group().release_new(ino);
  if (small && record.all_blocks() == 0) open_group().new_files[ino].home = home;
  NewFile* const file = open_group().find_new(ino);

  LSMFS_ASSIGN(std::uint64_t in_blobs, settled_in_blobs(lock, *inode, first, last + 1));
  // Blocks [whole_from, whole_to) get rows, or go into a stream. The one before and the one after them get patches, if they are written.
  const auto bytes_in = [&](std::uint64_t index) { return std::min(end, (index + 1) * kBlockSize) - std::max(offset.v, index * kBlockSize); };
  const auto patched = [&](std::uint64_t index) LSMFS_LOCKED { return !is_whole(index) && may_patch(*inode, index, bytes_in(index)); };
  const std::uint64_t whole_from = in_blobs > 0 && patched(first) ? first + 1 : first;
  const std::uint64_t whole_to = std::max(whole_from, in_blobs > 0 && last >= whole_from && patched(last) ? last : last + 1);
  const std::uint64_t patches = last + 1 - first - (whole_to - whole_from);
  in_blobs -= patches;
  if (in_blobs > 0) {
    const FileBlobs& blobs = inode->large->blobs;
    if (const std::uint64_t wasted = blobs.in_blobs(whole_from, whole_to); wasted > 0 && (!may_waste(wasted) || !need_rows(in_blobs))) {
      const auto runs = blobs.runs(whole_from, whole_to);
      full_of_waste = std::ranges::find_if(runs, [](const FileBlobs::Run& run) { return run.part && !run.part->shared(); })->part->blob;
      return make_error(EAGAIN, "");
    }
    // What is small and was shared is copied as a whole, so that it lies in one place; unless it cannot be read.
    if (blobs.in_blobs(0, old_blocks) == 0 && old_blocks <= copied_whole() && need_rows(blobs.live())) {
      const auto copied = make_rows(lock, *inode, 0, old_blocks);
      if (!copied && copied.error().code == EAGAIN) return copied;
    }
    for (const std::uint64_t index : {whole_from, whole_to - 1}) {
      if (!is_whole(index)) LSMFS_TRY(make_rows(lock, *inode, index, index + 1));
    }
    in_blobs = inode->large->blobs.live(whole_from, whole_to);
  }

  // Rows that are new add to the file's blocks. In a file without holes those are the ones past its end, and in place of what its blobs
  // have; only in a sparse file does it take a look.
  std::uint64_t existing = 0;
  if (!file && first < old_blocks) {
    const std::uint64_t until = std::min(last + 1, old_blocks);
    existing = until - first - in_blobs - patches;
    if (record.is_sparse()) {
      LSMFS_ASSIGN(existing, count_rows(lock, *inode, BlockIndex{first}, BlockIndex{until}));
    }
  }
  if (whole_from < whole_to) LSMFS_TRY(know_written(lock, *inode, std::max(offset.v, whole_from * kBlockSize), std::min(end, whole_to * kBlockSize)));
  if (file) existing = static_cast<std::uint64_t>(std::distance(file->rows.lower_bound(first), file->rows.upper_bound(last)));
  LSMFS_ASSIGN(Stream* const stream, file ? Result<Stream*>(nullptr) : stream_for(lock, wait, *inode, offset.v, end, made));
  // Blocks [streamed_from, streamed_to) go into it.
  const std::uint64_t streamed_from = div_up(offset.v, kBlockSize);
  const std::uint64_t streamed_to = stream ? std::max(streamed_from, end / kBlockSize) : streamed_from;
  if (const std::uint64_t more = whole_to - whole_from - existing - (streamed_to - streamed_from); more > 0) {
    LSMFS_TRY(need_rows(more));
  } else {
    LSMFS_TRY(need_room_to_replace(data.size()));
  }
  std::optional<Tail>& tail = open_group().tail;
  if (!file && tail && !(tail->ino == ino && tail->index == first)) open_group().put_tail();
  if (first > old_blocks) before_holes(*inode);
  if (in_blobs > 0) leave_blobs(open_group(), *inode, whole_from, whole_to);
  std::uint64_t rows = file ? 0 : record.blocks + (whole_to - whole_from) - existing;
  for (std::uint64_t index = first; index <= last; ++index) {
    const std::uint64_t start = index * kBlockSize;
    if (index >= streamed_from && index < streamed_to) {
      stream_blocks(*inode, index, as_text(data.subspan(start - offset.v, (streamed_to - index) * kBlockSize)));
      rows -= streamed_to - index;
      index = streamed_to - 1;
      continue;
    }
    const std::uint64_t from = std::max(offset.v, start), to = std::min(end, start + kBlockSize);
    const std::string_view bytes = as_text(data.subspan(from - offset.v, to - from));
    if (file) {
      open_group().write_new(*file, index, from - start, bytes);
      continue;
    }
    if (index < whole_from || index >= whole_to) {
      patch_in_blob(*inode, index, from - start, bytes);
      continue;
    }
    if (stream && tail && index == stream->next && tail->bytes.size() == from - start && to == start + kBlockSize && stream->named) {
      // What is missing of the block that comes next in the stream, and that no row has yet.
      const std::string block = std::exchange(tail, std::nullopt)->bytes.append(bytes);
      stream_blocks(*inode, index, block);
      --rows;
      continue;
    }
    const bool no_row = index >= old_blocks;
    // The row's bytes before the write end here at the latest.
    const std::uint64_t old_end = no_row ? start : std::min(record.size, start + kBlockSize);
    rows_.write_block(ino, home, BlockIndex{index}, from - start, bytes, no_row || (from == start && to >= old_end));
  }
  set_blocks(*inode, file ? file->rows.size() : rows);
  record.size = std::max(record.size, end);
  if (inode->rows) inode->rows->add(whole_from, whole_to);
  after_holes(*inode);
  if (time == ChangeTime::now) record.mtime = record.ctime = Time::now(clock_);
  streaks_.note(ino, offset.v, end);
  open_group().written = ino;
  blocks_changed(*inode);
  changed(*inode);
  tell(*inode);
  return {};
}

void LsmTree::note_access_time(Inode& inode) {
  if (!can_change() || inode.implicit || inode.read_only || options_.atime == AtimePolicy::noatime) return;
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

// Fills `to`, from `offset` of the file on, as far as blocks [from, to) of a blob's run have it.
Result<void> LsmTree::read_run(const FileBlobs::Part& part, std::uint64_t from, std::uint64_t to, std::uint64_t offset, MutableBytes bytes) {
  const std::uint64_t begin = std::max(from * kBlockSize, offset), end = std::min(to * kBlockSize, offset + bytes.size());
  // Whole blocks go where they are wanted; of another, what is.
  for (std::uint64_t at = begin; at < end;) {
    const std::uint64_t index = at / kBlockSize, skip = at % kBlockSize;
    if (skip == 0 && end - at >= kBlockSize) {
      const std::uint64_t n = round_down(end - at, kBlockSize);
      LSMFS_TRY(blob_readers_.read(part.blob, part.end, index - part.first, bytes.subspan(at - offset, n)));
      at += n;
      continue;
    }
    const std::uint64_t n = std::min(kBlockSize - skip, end - at);
    AlignedBuffer block(kBlockSize);
    LSMFS_TRY(blob_readers_.read(part.blob, part.end, index - part.first, block.bytes()));
    std::ranges::copy(block.bytes().subspan(skip, n), bytes.subspan(at - offset, n).begin());
    at += n;
  }
  return {};
}

// Fills `bytes`, from `offset` of the file on, as far as blobs have it, and with zeros elsewhere.
Result<void> LsmTree::read_blobs(const std::vector<InBlob>& runs, std::uint64_t offset, MutableBytes bytes) {
  for (auto run = runs.begin(); run != runs.end();) {
    // What has gone between two runs is read, too, where it is little: one read of the device takes less time than two.
    const Leaf& leaf = run->leaf;
    const auto goes_on = [&](const Leaf& at, const Leaf& next) {
      return next.part.blob == leaf.part.blob && next.part.first == leaf.part.first && next.from - at.to <= kReadOver;
    };
    auto last = run;
    while (last + 1 != runs.end() && goes_on(last->leaf, (last + 1)->leaf)) ++last;
    auto done = read_run(leaf.part, leaf.from, last->leaf.to, offset, bytes);
    // Nobody wants what has gone; perhaps that cannot be read.
    if (!done && last != run) {
      last = run;
      done = read_run(leaf.part, leaf.from, leaf.to, offset, bytes);
    }
    LSMFS_TRY(done);
    run = last + 1;
  }
  std::uint64_t filled = offset;
  const auto zero_until = [&](std::uint64_t position) {
    if (position > filled) std::fill_n(bytes.data() + (filled - offset), position - filled, std::byte{0});
  };
  for (const InBlob& run : runs) {
    zero_until(run.leaf.from * kBlockSize);
    filled = std::max(filled, run.leaf.to * kBlockSize);
  }
  zero_until(offset + bytes.size());
  return {};
}

// Lays the patches of a run over what was read of a file, from `offset` on.
Result<void> LsmTree::read_patches(Ino ino, const InBlob& run, std::uint64_t offset, MutableBytes bytes) {
  Cursor& patches = *run.patches;
  for (patches.seek({}); patches.valid(); patches.next()) {
    const auto at = keys::parse_blob_patch(patches.key());
    const std::uint64_t start = at ? (at->first.v - run.leaf.at + run.leaf.from) * kBlockSize : 0;
    const std::uint64_t from = std::max(start, offset), to = std::min(start + kBlockSize, offset + bytes.size());
    if (!at || !block_patch::apply(patches.value(), bytes.subspan(from - offset, to - from), from - start)) {
      return make_error(EUCLEAN, fmt::format("a patch of inode {} is damaged", ino.v));
    }
  }
  return patches.status();
}

// The beginning of a file is about to be read. Gives whether it lies far from what was read before.
bool LsmTree::note_file(const Inode& inode, Wait wait) {
  FilesAhead& ahead = rows_.files_ahead();
  if (!inode.record.has_base() && !ahead.walks()) return false;
  const auto noted = ahead.note(inode.data_number(), wait);
  if (noted != FilesAhead::Noted::missing || inode.place != Inode::Place::named || !inode.record.has_base()) return noted == FilesAhead::Noted::known;
  std::vector<FilesAhead::Step> way;
  std::size_t left = inodes_.size();  // the parents of a damaged tree may lead back to it
  for (const Inode* at = &inode; at && !at->is_top() && left-- > 0;) {
    const Inode* const dir = at->removed() ? nullptr : inodes_.find(at->parent);
    if (dir) way.push_back({dir->data_home(), at->name});
    at = dir;
  }
  std::ranges::reverse(way);
  ahead.begin(std::move(way));
  return false;
}

Result<std::size_t> LsmTree::read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime) {
  for (int tries = 0;; ++tries) {
    auto done = try_to_read(ino, offset, to, wait, atime);
    // A blob may go after the look at where the file lies: then that is elsewhere.
    if (done || done.error().code != ENOENT) return done;
    if (tries == kReadsMost) return make_error(EUCLEAN, fmt::format("a blob of inode {} is missing", ino.v));
  }
}

Result<std::size_t> LsmTree::try_to_read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime) {
  return with_steady_home(ino, [&]() -> Result<std::size_t> {
    struct Place {
      std::string home;
      std::uint64_t size, blocks, epoch;
      std::vector<InBlob> in_blobs;
      std::vector<Leaf> in_bases;  // rows of theirs
      bool all_in_parts = false;
      bool scattered = false;  // few rows, far from those of the file before
    };
    LSMFS_ASSIGN(const Place place, attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Place> {
      pass_on_for_access(lock);
      LSMFS_ASSIGN(Inode * inode, find(ino));
      const Record& record = inode->record;
      if (record.is_directory()) return make_error(EISDIR, "");
      if (!record.is_regular()) return make_error(EINVAL, "");
      LSMFS_TRY(settle(lock, inode->blocks_group));
      Place found{inode->data_home(), record.size, record.blocks, rows_.epoch(), {}, {}, false, false};
      if (offset.v == 0) found.scattered = note_file(*inode, wait) && record.has_base();
      const std::uint64_t end = std::min(record.size, offset.v + to.size());
      if (record.blob_blocks > 0 && offset.v < end) {
        LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, *inode));
        const std::uint64_t from = offset.v / kBlockSize, past = block_count(end);
        LSMFS_ASSIGN(std::vector<Leaf> leaves, leaves_of(lock, *inode, from, past));
        for (Leaf& leaf : leaves) {
          if (!leaf.home.empty()) {
            found.in_bases.push_back(std::move(leaf));
            continue;
          }
          // As they are now: later the block may have a row, and no patches.
          const BlockIndex first{leaf.at}, after{leaf.at + (leaf.to - leaf.from)};
          auto patches = leaf.part.patched > 0 && wait == Wait::yes ? rows_.blob_patches_now(leaf.number, first, after) : nullptr;
          found.in_blobs.push_back({std::move(leaf), std::move(patches)});
        }
        found.all_in_parts = large->blobs.live(from, past) == past - from;
      }
      if (atime == AccessTime::now) note_access_time(*inode);
      return found;
    }));
    if (offset.v >= place.size) return std::size_t{0};
    if (place.scattered && wait == Wait::yes) rows_.files_ahead().wait_for(*keys::number_of(place.home));
    const std::size_t n = std::min<std::uint64_t>(to.size(), place.size - offset.v);
    if (n == 0) return n;
    if (!place.in_blobs.empty() && wait == Wait::no) return make_error(EAGAIN, "");  // they are in no memory of ours
    const bool in_blobs = !place.in_blobs.empty();
    if (in_blobs) LSMFS_TRY(read_blobs(place.in_blobs, offset.v, to.first(n)));
    for (const InBlob& run : place.in_blobs) {
      if (run.patches) LSMFS_TRY(read_patches(ino, run, offset.v, to.first(n)));
    }
    if (place.blocks > 0 && !place.all_in_parts) {
      const auto elsewhere = in_blobs ? Rows::Elsewhere::stays : Rows::Elsewhere::zeros;
      const auto read_rows = place.scattered ? &Rows::read_apart : &Rows::read;
      LSMFS_TRY((rows_.*read_rows)(place.home, offset, to.first(n), elsewhere, place.epoch, wait));
    } else if (!in_blobs && !place.all_in_parts) {
      std::fill_n(to.data(), n, std::byte{0});
    }
    for (const Leaf& leaf : place.in_bases) {
      const std::uint64_t begin = std::max(leaf.from * kBlockSize, offset.v), end = std::min(leaf.to * kBlockSize, offset.v + n);
      const ByteOffset in_base{(leaf.at - leaf.from) * kBlockSize + begin};
      LSMFS_TRY(rows_.read(leaf.home, in_base, to.subspan(begin - offset.v, end - begin), Rows::Elsewhere::zeros, place.epoch, wait));
    }
    return n;
  });
}

}  // namespace lsmfs
