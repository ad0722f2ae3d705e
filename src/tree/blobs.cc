// Blobs: which of a file's blocks lie in them, how these become rows again, and how a stream gets one. What a file shares is a part of it
// as well, and becomes rows in the same way (shares.cc).
//
// A block lies in a blob or has a row, never both. What lies in a blob cannot be changed there: a block that is written over gets a row,
// and a bit in the blob's row says that it has gone. So nothing else knows blobs but who reads, and who counts blocks.
//
// A block of which only a little is written over stays in its blob and gets a patch (block_patch.h), so that nothing need be read for it.
// A blob may have patches of a small part of its size. Past that, such a block is read and gets a row.
//
// The space of a blob comes back when nothing of it is wanted any more. Until then, what is wanted no more is waste; where there is too much
// of it, or no room for rows beside it, whoever writes over a blob first makes rows of all that is left of it (dissolve).
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "tree/blob_check.h"
#include "tree/blob_rows.h"
#include "tree/block_patch.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

// A file is a stream if as much as a fourth of what comes before it was written in order just now. A group that has less than a
// 256th of that for it makes rows of it, for each part costs one of the blob's index.
constexpr std::uint64_t kStreakShare = 4, kStreamedShare = 256;
constexpr std::uint64_t kIndexRoom = 4;             // blocks: what such a part takes at most
constexpr std::uint64_t kGapMost = 64;              // blocks that a stream may skip
constexpr std::size_t kStreamsMost = 16;            // at a time: each keeps space, and some memory
constexpr std::chrono::seconds kStreamIdle{2};      // then it ends
constexpr std::uint64_t kBlobSmallest = 2 * MiB, kBlobLeast = 4 * MiB, kBlobMost = FileBlobs::kBlocksMax * kBlockSize;
constexpr std::uint64_t kDissolved = MiB / kBlockSize;  // blocks at a time

Error damaged_blobs(Ino ino) { return make_error(EUCLEAN, fmt::format("the blobs of inode {}, or their rows, are damaged", ino.v)); }

}  // namespace

// What lies in parts of a home of this number. EUCLEAN: their rows are damaged.
Result<FileBlobs> LsmTree::parts_of(const Lock& lock, Ino number) {
  LSMFS_ASSIGN(const auto rows, rows_.blobs(lock, number));
  FileBlobs found;
  for (const auto& [key, row] : rows) {
    const auto at = keys::parse_blob(key);
    if (!at || !found.add(at->first.v, row)) return damaged_blobs(number);
  }
  return found;
}

// What a file has of parts. EUCLEAN: their rows are damaged.
Result<LargeFile*> LsmTree::large_file(const Lock& lock, Inode& inode) {
  if (inode.large) return inode.large.get();
  auto large = std::make_unique<LargeFile>();
  if (inode.record.blob_blocks > 0) {
    LSMFS_ASSIGN(large->blobs, parts_of(lock, inode.data_number()));
    if (large->blobs.live() != inode.record.blob_blocks) return damaged_blobs(inode.ino());
  }
  inode.large = std::move(large);
  return inode.large.get();
}

// How many of blocks [from, to) lie in blobs that can be read, and changed, as soon as this succeeds.
Result<std::uint64_t> LsmTree::settled_in_blobs(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to) {
  if (inode.record.blob_blocks == 0) return std::uint64_t{0};
  LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, inode));
  const std::uint64_t found = large->blobs.live(from, to);
  if (found > 0) LSMFS_TRY(settle(lock, large->streamed_group));
  return found;
}

// They lie in no blob any more. Gives how many did. Must hold: settled_in_blobs(), or all go.
std::uint64_t LsmTree::leave_blobs(Group& group, Inode& inode, std::uint64_t from, std::uint64_t to) {
  if (!inode.large || inode.record.blob_blocks == 0) return 0;
  FileBlobs& blobs = inode.large->blobs;
  const std::uint64_t waste = blobs.wasted();
  const std::vector<std::string> bases = blobs.bases();
  GroupBlobRows rows(group, inode.record.number());
  const std::uint64_t left = blobs.remove(from, to, rows);
  inode.record.blob_blocks -= left;
  state_.blob_waste += blobs.wasted() - waste;
  if (!bases.empty() && left > 0) leave_bases(group, inode, bases);
  const auto& stream = inode.large->stream;
  const FileBlobs::Part* const part = stream ? blobs.find(stream->blob) : nullptr;
  if (stream && (!part || part->past() != stream->next)) end_stream(inode);
  return left;
}

// What has been written over the blocks of a leaf that lies in a blob is in `bytes` then.
Result<void> LsmTree::apply_patches(const Lock& lock, const Inode& inode, const Leaf& leaf, std::string& bytes) {
  if (leaf.part.patched == 0) return {};
  LSMFS_TRY(settle(lock, inode.large->patched_group));
  LSMFS_ASSIGN(const Rows::Blocks patches, rows_.blob_patches(lock, leaf.number, BlockIndex{leaf.at}, BlockIndex{leaf.at + (leaf.to - leaf.from)}));
  const MutableBytes blocks(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  for (const auto& [block, patch] : patches) {
    if (!block_patch::apply(patch, blocks.subspan((block.v - leaf.at) * kBlockSize, kBlockSize))) return damaged_blobs(inode.ino());
  }
  return {};
}

// Whether a write of so many bytes to a part of a block may be a patch. Must hold: settled_in_blobs().
bool LsmTree::may_patch(const Inode& inode, std::uint64_t block, std::uint64_t bytes) const {
  return bytes <= block_patch::kMost && inode.large->blobs.has(block) && inode.large->blobs.may_patch(block, block_patch::cost(bytes)) && may_waste(1);
}

// Must hold: may_patch().
void LsmTree::patch_in_blob(Inode& inode, std::uint64_t block, std::size_t at, std::string_view bytes) {
  LargeFile& large = *inode.large;
  const Ino number = inode.record.number();
  GroupBlobRows rows(open_group(), number);
  const std::uint64_t waste = large.blobs.wasted();
  large.blobs.patch(block, block_patch::cost(bytes.size()), rows);
  state_.blob_waste += large.blobs.wasted() - waste;
  large.patched_group = open_group().number;
  open_group().batch.patch(Family::names, keys::blob_patch(number, BlockIndex{block}), static_cast<std::uint32_t>(block_patch::offset(at)),
                           block_patch::encode(bytes));
}

// Blocks [from, to) of a file that lie in blobs become rows. Must hold: settled_in_blobs().
Result<void> LsmTree::make_rows(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  Rows::Blocks rows;  // of bases, by the block of the file
  LSMFS_ASSIGN(const std::vector<Leaf> leaves, leaves_of(lock, inode, from, to));
  for (const Leaf& leaf : leaves) {
    if (!leaf.home.empty()) {
      LSMFS_TRY(read_leaf(lock, leaf, rows));
      continue;
    }
    const std::uint64_t block = leaf.from - leaf.part.first, count = leaf.to - leaf.from;
    const auto* const bytes = lock.fetched().find_blob(leaf.part.blob, block, count);
    if (!bytes) {
      lock.want([this, &lock, blob = leaf.part.blob, end = leaf.part.end, block, count] {
        lock.fetched().fetch_blob(blob_readers_, blob, end, block, count);
      });
      return make_error(EAGAIN, "");
    }
    if (!*bytes) return bytes->error().code == ENOENT ? damaged_blobs(inode.ino()) : bytes->error();
    found.emplace_back(leaf.from, **bytes);
    LSMFS_TRY(apply_patches(lock, inode, leaf, found.back().second));
  }
  if (leaves.empty()) return {};
  open_group().release_new(inode.ino());  // from now on not all its blocks are of this group
  open_group().put_tail();
  const std::string home = inode.home();
  for (const auto& [first, bytes] : found) put_rows(open_group(), home, first, bytes);
  for (const auto& [index, bytes] : rows) batch().put(Family::blocks, keys::block(home, index), bytes);
  set_blocks(inode, inode.record.blocks + leave_blobs(open_group(), inode, from, to));
  blocks_changed(inode);
  changed(inode);
  return {};
}

void LsmTree::put_rows(Group& group, const std::string& home, std::uint64_t first, std::string_view bytes) {
  for (; !bytes.empty(); bytes.remove_prefix(kBlockSize)) group.batch.put(Family::blocks, keys::block(home, BlockIndex{first++}), bytes.substr(0, kBlockSize));
  group.blocks = true;
}

// Whether so many blocks that lie in blobs may be written over by rows: there is room for them, and not too much waste.
bool LsmTree::may_waste(std::uint64_t blocks) const {
  const std::uint64_t room = store_.room().v;
  return (state_.blob_waste + blocks) * kBlockSize <= blob_most() + room / 16 && room >= 2 * blocks * kBlockSize;
}

// That no row has ever named.
void LsmTree::drop_blob(std::uint64_t blob) {
  const Lock lock(mutex_);
  dropped_blobs_.push_back(blob);
}

// Makes rows of all that is left of a blob.
Result<void> LsmTree::dissolve(Ino ino, std::uint64_t blob) {
  for (bool ended = false; !ended;) {
    const auto made_rows = attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
      LSMFS_TRY(begin_change(lock, Wait::yes));
      Inode* const inode = inodes_.find(ino);
      if (inode) renew(*inode);
      if (inode) LSMFS_TRY(unshare(lock, *inode));  // since it was written
      const FileBlobs::Part* const part = inode && inode->large ? inode->large->blobs.find(blob) : nullptr;
      ended = !part;
      if (ended) return {};
      // From its end, so that its row becomes shorter.
      const std::uint64_t to = part->past(), from = std::max(part->first, to - std::min(to, kDissolved));
      LSMFS_TRY(settle(lock, inode->large->streamed_group));
      return make_rows(lock, *inode, from, to);
    });
    LSMFS_TRY(made_rows);
  }
  return sync();  // its space is back then
}

// ---- scrubbing

ByteCount LsmTree::bytes_in_blobs() const {
  return ByteCount{store_.stats().blob_bytes};
}

// Reads one blob from the device, as far as its file wants it: the first from a number on. They are taken in the order of numbers.
Result<ScrubStep> LsmTree::scrub_blobs(ScrubPosition& position, const Stop& stop) {
  const IoFor scrubbing(IoCause::scrub);
  ScrubStep step;
  if (position.done()) return step;
  std::vector<std::pair<Ino, FileBlobs::Part>> parts;
  const auto cursor = store_.cursor(Family::names, {.lower = std::string(keys::kBlobPrefix), .upper = keys::prefix_end(keys::kBlobPrefix),
                                                    .readahead = kRowsReadahead});
  for (cursor->seek(keys::kBlobPrefix); cursor->valid(); cursor->next()) {
    const auto at = keys::parse_blob(cursor->key());
    auto part = at ? FileBlobs::decode(at->first.v, cursor->value()) : std::nullopt;
    if (part && !part->shared() && part->blob >= position.range.next) parts.emplace_back(at->ino, std::move(*part));
  }
  LSMFS_TRY(cursor->status());
  std::ranges::sort(parts, {}, [](const auto& one) { return one.second.blob; });
  if (position.range.end == 0) position.range.end = parts.empty() ? 1 : parts.back().second.blob + 1;
  std::erase_if(parts, [&](const auto& one) { return one.second.blob >= position.range.end; });
  if (parts.empty()) {
    position = {position.part + 1, {}};
    return step;
  }
  const auto& [ino, part] = parts.front();
  for (const auto& [from, to, error] : unreadable_blocks(store_, part, true, [&](ByteCount) { return !stop(); })) {
    // What has gone meanwhile, or lies elsewhere, is not damaged.
    const auto row = store_.get(Family::names, keys::blob(ino, BlockIndex{part.first}), Wait::yes);
    const auto now = row && *row ? FileBlobs::decode(part.first, **row) : std::nullopt;
    if (!now || now->blob != part.blob) break;
    step.damage.push_back(fmt::format("{}; bytes {} to {} of inode {}", error.context, from * kBlockSize, to * kBlockSize, ino.v));
    notice_("scrub: " + step.damage.back());
  }
  if (stop()) return make_error(EINTR, "scrub");
  step.read = ByteCount{part.end.bytes};
  position.range.next = part.blob + 1;
  for (const auto& [owner, other] : std::span(parts).subspan(1)) step.left = step.left + ByteCount{other.end.bytes};
  if (position.range.done()) position = {position.part + 1, {}};
  return step;
}

// ---- streams

// So large a blob may be at most. While one is dissolved there are its rows beside it, and df cannot say how much of its room that will
// take, so it is little. 0: on a small volume there are no blobs.
std::uint64_t LsmTree::blob_most() const {
  const std::uint64_t bytes = round_down(store_.space().total.v / 256, MiB);
  return bytes < kBlobSmallest ? 0 : std::min(bytes, kBlobMost);
}

// What the whole blocks of a write of [offset, end) at the end of a file go into. nullptr: rows. EAGAIN: `lock` wants a blob, which comes
// to `made`.
Result<Stream*> LsmTree::stream_for(const Lock& lock, Wait wait, Inode& inode, std::uint64_t offset, std::uint64_t end, MadeBlob& made) {
  const Record& record = inode.record;
  if (offset != record.size || offset < options_.stream_from.v || record.is_sparse()) return nullptr;
  LSMFS_ASSIGN(LargeFile* const large, large_file(lock, inode));
  const std::uint64_t first = div_up(offset, kBlockSize), blocks = end / kBlockSize - std::min(first, end / kBlockSize);
  if (large->stream && !large->stream->named) large->stream->next = first;
  const bool goes_on = large->stream && first >= large->stream->next && first <= large->stream->next + kGapMost;
  if (goes_on && first - large->stream->next + blocks + 1 <= large->stream->room) return &*large->stream;
  if (blocks == 0 || (!large->stream && streaming_.size() >= kStreamsMost)) return nullptr;
  if (!goes_on && streaks_.before(inode.ino(), offset) + (end - offset) < options_.stream_from.v / kStreakShare) return nullptr;
  if (!made.writer) {
    const std::uint64_t most = blob_most();
    if (most == 0) return nullptr;
    const std::uint64_t bytes = std::clamp(round_up(record.size / 2, MiB), std::min(kBlobLeast, most), most);
    if (bytes > store_.room().v / 16 || bytes < (blocks + 1 + kIndexRoom) * kBlockSize) return nullptr;  // nearly full
    if (wait == Wait::no) return make_error(EAGAIN, "");
    made.number = state_.next_ino.v++;
    lock.want([this, &made, bytes] { made.writer = store_.create_blob(made.number, ByteCount{bytes}); });
    return make_error(EAGAIN, "");
  }
  if (made.taken) return nullptr;
  if (!*made.writer) {
    streaks_.end(inode.ino());  // not again for each write
    return nullptr;
  }
  end_stream(inode);
  std::shared_ptr<BlobWriter> writer(std::move(**made.writer));
  made.taken = true;
  const std::uint64_t room = writer->room();
  large->stream = Stream{std::move(writer), made.number, first, room - std::min(room, kIndexRoom), false, clock_.now()};
  streaming_.insert(inode.ino());
  return &*large->stream;
}

// Blocks for a stream, from `first` on: the next one, or a few after that. Those between them have rows, or are holes.
void LsmTree::stream_blocks(Inode& inode, std::uint64_t first, std::string_view bytes) {
  LargeFile& large = *inode.large;
  Stream& stream = *large.stream;
  Streamed& to = open_group().streamed_to(inode.ino(), inode.record.number(), stream.writer, stream.blob, stream.next);
  const std::size_t before = to.data.size();
  if (!std::exchange(stream.named, true)) {
    FileBlobs::Part part;
    part.blob = stream.blob;
    part.first = stream.next;
    large.blobs.add(std::move(part));
  }
  assert(first >= stream.next);
  const std::uint64_t waste = large.blobs.wasted();
  if (first > stream.next) {
    to.data.append_zeros((first - stream.next) * kBlockSize);
    large.blobs.skip(first - stream.next);
  }
  to.data.append(as_bytes(bytes));
  const std::uint64_t blocks = bytes.size() / kBlockSize;
  large.blobs.grow(blocks);
  state_.blob_waste += large.blobs.wasted() - waste;
  stream.room -= std::min(stream.room, first - stream.next + blocks);
  stream.next = first + blocks;
  stream.last = clock_.now();
  inode.record.blob_blocks += blocks;
  large.streamed_group = open_group().number;
  open_group().streamed_bytes += to.data.size() - before;
}

void LsmTree::end_stream(Inode& inode) {
  if (!inode.large || !inode.large->stream) return;
  const Stream& stream = *inode.large->stream;
  if (!stream.named) dropped_blobs_.push_back(stream.blob);
  ended_writers_.push_back(stream.writer);
  inode.large->stream.reset();
  streaming_.erase(inode.ino());
}

// That a group has committed may go with it, too.
void LsmTree::close_writers() {
  std::vector<std::shared_ptr<BlobWriter>> ended;
  std::vector<std::shared_ptr<BulkWriter>> ended_bulk;
  const Lock lock(mutex_);
  ended.swap(ended_writers_);
  ended_bulk.swap(ended_bulk_);
}

// What the open group has for blobs of a file that goes.
void LsmTree::discard_streamed(Inode& inode) {
  end_stream(inode);
  std::erase_if(open_group().streamed, [&](const Streamed& streamed) LSMFS_LOCKED {
    if (streamed.ino != inode.ino()) return false;
    open_group().streamed_bytes -= streamed.data.size();
    return true;
  });
}

void LsmTree::end_streams() {
  const std::vector<Ino> streaming(streaming_.begin(), streaming_.end());
  for (const Ino ino : streaming) end_stream(*inodes_.find(ino));
}

void LsmTree::end_idle_streams() {
  const Clock::Time since = clock_.now() - kStreamIdle;
  const std::vector<Ino> streaming(streaming_.begin(), streaming_.end());
  for (const Ino ino : streaming) {
    Inode& inode = *inodes_.find(ino);
    if (inode.large->stream->last > since || inode.large->streamed_group > history_.committed()) continue;  // or it waits for the device
    end_stream(inode);
    streaks_.end(ino);
  }
}

// What a group has for blobs is rows instead.
void LsmTree::unstream(Group& group, Inode& inode, const Streamed& streamed) {
  const FileBlobs& blobs = inode.large->blobs;
  const std::uint64_t to = streamed.first + streamed.data.size() / kBlockSize;
  const std::string home = inode.home();
  for (const FileBlobs::Run& run : blobs.runs(streamed.first, to)) {
    if (!run.part || run.part->blob != streamed.blob) continue;
    const Bytes blocks = streamed.data.bytes().subspan((run.from - streamed.first) * kBlockSize, (run.to - run.from) * kBlockSize);
    put_rows(group, home, run.from, as_text(blocks));
  }
  set_blocks(inode, inode.record.blocks + leave_blobs(group, inode, streamed.first, to));
}

// Before a group is passed on: what it has for each blob, and what that is to be.
void LsmTree::seal_streams(Group& group) {
  std::erase_if(group.streamed, [&](Streamed& streamed) LSMFS_LOCKED {
    Inode* const inode = inodes_.find(streamed.ino);
    if (!inode || !inode->large || !inode->large->blobs.find(streamed.blob)) return true;
    if (streamed.data.size() < options_.stream_from.v / kStreamedShare) {
      unstream(group, *inode, streamed);
      end_stream(*inode);
      streaks_.end(streamed.ino);
      return true;
    }
    streamed.part = *inode->large->blobs.find(streamed.blob);
    auto& stream = inode->large->stream;
    if (stream && stream->blob == streamed.blob) stream->room -= std::min(stream->room, kIndexRoom);
    return false;
  });
}

void LsmTree::keep(Group& group) {
  for (const Streamed& streamed : group.streamed) {
    Inode* const inode = inodes_.find(streamed.ino);
    if (!inode || !inode->large) continue;
    end_stream(*inode);
    unstream(group, *inode, streamed);
    if (!inode->removed()) group.batch.put(Family::names, inode->row_key(), encode(inode->record));
  }
  group.streamed.clear();
}

// What a group has appended can be read.
void LsmTree::streams_settled(const Group& group) {
  for (const Streamed& streamed : group.streamed) {
    ended_writers_.push_back(streamed.writer);  // if it is
    Inode* const inode = inodes_.find(streamed.ino);
    if (!inode || !inode->large) continue;
    if (inode->large->stream) inode->large->stream->last = clock_.now();
    const std::uint64_t waste = inode->large->blobs.wasted();
    inode->large->blobs.reached(streamed.blob, streamed.part.end);
    state_.blob_waste += inode->large->blobs.wasted() - waste;
  }
}

}  // namespace lsmfs
