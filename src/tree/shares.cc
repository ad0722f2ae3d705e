// Shares: files that have blocks in common. A copy of blocks within the tree writes no data: it makes a part of the target
// (file_blobs.h), which says that its blocks are those of a base.
//
// A base is all that lies under the home of a file: rows, and its own parts, which may be shared again. While it is one, nobody changes
// that. The file stays as it is until it is to be changed. Then its home is left to those who share it, as a node without a file, and the
// file gets another home, as one more that shares. So it does when it is removed, without another home. Nobody knows then whether
// somebody is left: a node that nobody uses is dropped later.
//
// Each user of a base, a file or a node, has a row with the numbers of both homes. A file that has become a base says so in its record, and
// goes on to say so when its users have gone: whoever changes it looks.
//
// Who reads follows the parts of bases to where their blocks lie: leaves.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "lsmfs/device.h"
#include "tree/blob_rows.h"
#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

constexpr std::uint64_t kSharedAtOnce = 4 * GiB;   // bytes: while the lock is held
constexpr std::uint64_t kSparseAtOnce = FileBlobs::kBlocksMax * kBlockSize;  // whose rows are looked at
constexpr std::uint64_t kCopiedInOneCall = 64 * MiB;     // bytes: then the caller asks for the rest, so that it can be interrupted
constexpr std::uint64_t kCopiedWithoutWait = 128 * KiB;  // less than this is copied while the next request waits
constexpr std::uint64_t kCopiedAtOnce = MiB;
constexpr std::size_t kBasesKnown = 1024;  // whose parts are kept in memory
constexpr std::size_t kPartRoom = 2 * KiB;  // for the rows of a part, beside its home and its bits

Error damaged_base(std::string_view home) { return make_error(EUCLEAN, fmt::format("shared data of home {} is damaged", keys::number_of(home)->v)); }

// The blocks of `has`, from block `from` of a base on, as a part of a file from its block `first` on. nullopt: there are none.
std::optional<FileBlobs::Part> shared_part(const std::string& base, std::uint64_t from, std::uint64_t first, const std::vector<bool>& has) {
  const auto begin = std::ranges::find(has, true);
  if (begin == has.end()) return std::nullopt;
  std::size_t end = has.size();
  while (!has[end - 1]) --end;
  const auto skipped = static_cast<std::uint64_t>(begin - has.begin());
  FileBlobs::Part part;
  part.base = base;
  part.from = from + skipped;
  part.first = first + skipped;
  part.blocks = end - skipped;
  for (std::uint64_t i = 0; i < part.blocks; ++i) {
    if (has[skipped + i]) continue;
    part.is_gone.resize(i);
    part.is_gone.push_back(true);
    ++part.gone;
  }
  return part;
}

// What rows of these take in the group, at most.
std::size_t room_of(const std::vector<FileBlobs::Part>& parts) {
  std::size_t bytes = 0;
  for (const auto& part : parts) bytes += part.base.size() + part.is_gone.size() / 8 + kPartRoom;
  return bytes;
}

}  // namespace

// ---- reading

// What lies in parts under a home that is a base.
Result<std::shared_ptr<const FileBlobs>> LsmTree::base_parts(const Lock& lock, const std::string& home) {
  const Ino number = *keys::number_of(home);
  if (const auto found = base_parts_.find(number); found != base_parts_.end()) return found->second;
  LSMFS_ASSIGN(FileBlobs parts, parts_of(lock, number));
  if (base_parts_.size() >= kBasesKnown) base_parts_.clear();
  auto known = std::make_shared<const FileBlobs>(std::move(parts));
  base_parts_.emplace(number, known);
  return known;
}

// Over how many bases some of blocks [from, to) lie, at most. `above`: of those that are known to lie over them.
Result<int> LsmTree::depth_of(const Lock& lock, const FileBlobs& parts, std::uint64_t from, std::uint64_t to, int above) {
  int depth = above;
  for (const FileBlobs::Run& run : parts.runs(from, to)) {
    if (!run.part || !run.part->shared()) continue;
    if (above > FileBlobs::kDepthMost) return damaged_base(run.part->base);
    const std::uint64_t at = run.from - run.part->first + run.part->from;
    LSMFS_ASSIGN(const auto base, base_parts(lock, run.part->base));
    LSMFS_ASSIGN(const int below, depth_of(lock, *base, at, at + (run.to - run.from), above + 1));
    depth = std::max(depth, below);
  }
  return depth;
}

// Where blocks [from, to) of a file lie, as far as its parts have them. Must hold: these are known.
Result<std::vector<LsmTree::Leaf>> LsmTree::leaves_of(const Lock& lock, const Inode& inode, std::uint64_t from, std::uint64_t to) {
  std::vector<Leaf> leaves;
  LSMFS_TRY(add_leaves(lock, inode.large->blobs, {}, {.number = inode.data_number(), .from = from, .to = to, .shift = 0, .depth = 0}, leaves));
  return leaves;
}

// `rows`: the home of what no part has; empty: that is none of it.
Result<void> LsmTree::add_leaves(const Lock& lock, const FileBlobs& parts, const std::string& rows, const Span& span, std::vector<Leaf>& leaves) {
  for (const FileBlobs::Run& run : parts.runs(span.from, span.to)) {
    Leaf leaf{.from = run.from - span.shift, .to = run.to - span.shift, .number = span.number, .at = run.from, .home = {}, .part = {}};
    if (!run.part) {
      leaf.home = rows;
      if (!rows.empty()) leaves.push_back(std::move(leaf));
    } else if (!run.part->shared()) {
      leaf.part.blob = run.part->blob;
      leaf.part.first = run.part->first - span.shift;
      leaf.part.end = run.part->end;
      leaf.part.patched = run.part->patched;
      leaves.push_back(std::move(leaf));
    } else {
      if (span.depth > FileBlobs::kDepthMost) return damaged_base(run.part->base);
      const std::uint64_t at = run.from - run.part->first + run.part->from;
      LSMFS_ASSIGN(const auto base, base_parts(lock, run.part->base));
      const Span below{.number = *keys::number_of(run.part->base), .from = at, .to = at + (run.to - run.from), .shift = at - leaf.from, .depth = span.depth + 1};
      LSMFS_TRY(add_leaves(lock, *base, run.part->base, below, leaves));
    }
  }
  return {};
}

// Adds the rows of a base that a leaf is, by the blocks of the file.
Result<void> LsmTree::read_leaf(const Lock& lock, const Leaf& leaf, Rows::Blocks& to) {
  LSMFS_ASSIGN(Rows::Blocks rows, rows_.blocks(lock, leaf.home, BlockIndex{leaf.at}, BlockIndex{leaf.at + (leaf.to - leaf.from)}, true));
  if (rows.size() != leaf.to - leaf.from) return damaged_base(leaf.home);
  for (auto& [index, bytes] : rows) to.emplace_back(BlockIndex{index.v - leaf.at + leaf.from}, std::move(bytes));
  return {};
}

// ---- copying

// Shares what can be shared, and copies what lies before and after it. What was done before an error counts: the kernel goes by it when it
// looks at the file again.
Result<ByteCount> LsmTree::copy_range(Ino from, ByteOffset at, Ino to, ByteOffset to_at, ByteCount length, Wait wait) {
  const Copy whole{from, at.v, to, to_at.v, length.v};
  if (wait == Wait::no) return copy_at_once(whole);
  std::uint64_t done = 0, copied = 0;
  while (done < length.v && copied < kCopiedInOneCall) {
    const Copy rest{from, at.v + done, to, to_at.v + done, length.v - done};
    Result<SeenBlocks> seen = SeenBlocks();
    auto some = attempt(wait, [&](Lock& lock) LSMFS_LOCKED { return share(lock, wait, rest, seen); });
    if (some && !*some) {
      // What comes after the rest of a block can be shared.
      const std::uint64_t within = rest.at % kBlockSize, left = kCopiedInOneCall - copied;
      some = copy_bytes(rest, within > 0 && within == rest.to_at % kBlockSize ? std::min(left, kBlockSize - within) : left, wait);
      if (some) copied += **some;
    }
    if (!some && done == 0) return some.error();
    if (!some || **some == 0) break;
    done += **some;
  }
  return ByteCount{done};
}

// All of it or, with EAGAIN, nothing.
Result<ByteCount> LsmTree::copy_at_once(const Copy& copy) {
  Result<SeenBlocks> seen = SeenBlocks();
  LSMFS_ASSIGN(auto done, attempt(Wait::no, [&](Lock& lock) LSMFS_LOCKED { return share(lock, Wait::no, copy, seen); }));
  if (!done) {
    LSMFS_ASSIGN(const Attr source, getattr(copy.from, Wait::no));
    if (std::min(copy.length, source.size - std::min(source.size, copy.at)) >= kCopiedWithoutWait) return make_error(EAGAIN, "");
    LSMFS_ASSIGN(done, copy_bytes(copy, copy.length, Wait::no));
  }
  return ByteCount{*done};
}

// Up to so many.
Result<std::optional<std::uint64_t>> LsmTree::copy_bytes(const Copy& copy, std::uint64_t most, Wait wait) {
  most = std::min(most, copy.length);
  AlignedBuffer buffer(std::min(most, kCopiedAtOnce));
  std::uint64_t done = 0;
  while (done < most) {
    const MutableBytes bytes = buffer.bytes().first(std::min<std::uint64_t>(most - done, buffer.size()));
    const auto got = read(copy.from, ByteOffset{copy.at + done}, bytes, wait, AccessTime::now);
    const auto written = got ? write(copy.to, ByteOffset{copy.to_at + done}, bytes.first(*got), wait, ChangeTime::now) : Result<void>(got.error());
    if (!written && done == 0) return written.error();
    if (!written || *got == 0) break;
    done += *got;
    if (*got < bytes.size()) break;
  }
  return std::optional(done);
}

// Makes bytes of a file those of another, without copying them. Gives how many; nullopt: none, they are to be copied. EAGAIN: not all of them
// could be shared, and `wait` is no.
Result<std::optional<std::uint64_t>> LsmTree::share(Lock& lock, Wait wait, const Copy& copy, Result<SeenBlocks>& seen) {
  using Copied = std::optional<std::uint64_t>;
  LSMFS_TRY(begin_change(lock, wait, copy.to));
  LSMFS_ASSIGN(Inode * source, find(copy.from));
  LSMFS_ASSIGN(Inode * target, find(copy.to));
  for (const Inode* inode : {source, target}) {
    if (inode->record.is_directory()) return make_error(EISDIR, "");
    if (!inode->record.is_regular()) return make_error(EINVAL, "");
  }
  if (copy.at >= source->record.size) return Copied(0);
  const std::uint64_t copied = std::min(copy.length, source->record.size - copy.at);
  if (copy.to_at > kFileSizeMax || copied > kFileSizeMax - copy.to_at) return make_error(EFBIG, "");
  LSMFS_TRY(may_write(*target, copy.to_at));
  if (source == target || copy.at % kBlockSize != 0 || copy.to_at % kBlockSize != 0) return Copied();
  std::uint64_t length = std::min(copied, source->record.is_sparse() ? kSparseAtOnce : kSharedAtOnce);
  // A part of a block is shared only if both files end there.
  const bool both_end = copy.at + length == source->record.size && copy.to_at + length >= target->record.size;
  if (!both_end) length = round_down(length, kBlockSize);
  if (length <= options_.share_past.v) return Copied();
  if (length < copied && wait == Wait::no) return make_error(EAGAIN, "");

  // What can fail comes first. What is shared must be in the store.
  for (Inode* const inode : {source, target}) {
    if (!inode->large || !inode->large->stream) continue;
    end_stream(*inode);
    streaks_.end(inode->ino());
  }
  LSMFS_TRY(settle(lock, source->blocks_group));
  LSMFS_TRY(settle(lock, target->blocks_group));
  LSMFS_TRY(unshare(lock, *target));
  const std::uint64_t first = copy.at / kBlockSize, to_first = copy.to_at / kBlockSize, count = block_count(length);
  LSMFS_ASSIGN(std::vector<FileBlobs::Part> parts, parts_to_share(lock, *source, first, to_first, count));
  if (parts.empty()) return Copied();
  LSMFS_ASSIGN(LargeFile* const large, large_file(lock, *target));
  if (!large->blobs.makes_room(to_first + count)) return Copied();
  LSMFS_TRY(need_room_for_names(kRecordRoom + room_of(parts)));
  LSMFS_TRY(make_hole(lock, *target, copy.to_at, std::min(copy.to_at + length, target->record.size), seen));

  open_group().put_tail();
  open_group().release_new(target->ino());
  know_past_end(*target, to_first + count);
  streaks_.end(target->ino());
  Record& record = target->record;
  add_parts(*target, std::move(parts));
  record.size = std::max(record.size, copy.to_at + length);
  record.mtime = record.ctime = Time::now(clock_);
  changed(*target);
  tell(*target);
  const std::vector<std::string> bases = large->blobs.bases();
  if (std::ranges::binary_search(bases, source->home())) {
    source->shared_group = open_group().number;
    source->record.is_base = true;
    changed(*source);  // in any case: it stays in the table until its new user can be seen
  }
  return Copied(length);
}

// Blocks [first, first + count) of a file, as parts of another one from its block `to_first` on. Empty: there are none, or too many bases would
// lie over each other.
Result<std::vector<FileBlobs::Part>> LsmTree::parts_to_share(const Lock& lock, Inode& source, std::uint64_t first, std::uint64_t to_first, std::uint64_t count) {
  std::vector<FileBlobs::Part> parts;
  LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, source));
  const FileBlobs& blobs = large->blobs;
  LSMFS_ASSIGN(const std::vector<bool> has, which_blocks(lock, source, first, count));
  const auto runs = blobs.runs(first, first + count);
  const bool all_shared = std::ranges::all_of(runs, [&](const FileBlobs::Run& run) {
    if (run.part) return run.part->shared();
    return std::find(has.begin() + static_cast<std::ptrdiff_t>(run.from - first), has.begin() + static_cast<std::ptrdiff_t>(run.to - first), true) ==
           has.begin() + static_cast<std::ptrdiff_t>(run.to - first);
  });
  if (all_shared) {
    // The bases of the source, and not itself over them.
    for (const FileBlobs::Part& part : blobs.parts()) {
      const std::uint64_t from = std::max(first, part.first), to = std::min(first + count, part.past());
      if (from >= to) continue;
      std::vector<bool> of_it(to - from);
      for (std::uint64_t block = from; block < to; ++block) of_it[block - from] = part.has(block);
      auto shared = shared_part(part.base, part.from + (from - part.first), to_first + (from - first), of_it);
      if (shared) parts.push_back(std::move(*shared));
    }
    return parts;
  }
  LSMFS_ASSIGN(const int depth, depth_of(lock, blobs, first, first + count, 0));
  if (depth >= FileBlobs::kDepthMost) return parts;
  return shared_parts(source.data_home(), first, to_first, has);
}

// Cut into parts of a size that is allowed.
std::vector<FileBlobs::Part> LsmTree::shared_parts(const std::string& base, std::uint64_t from, std::uint64_t first, const std::vector<bool>& has) {
  std::vector<FileBlobs::Part> parts;
  for (std::uint64_t at = 0; at < has.size(); at += FileBlobs::kBlocksMax) {
    const std::uint64_t end = std::min<std::uint64_t>(has.size(), at + FileBlobs::kBlocksMax);
    const std::vector<bool> some(has.begin() + static_cast<std::ptrdiff_t>(at), has.begin() + static_cast<std::ptrdiff_t>(end));
    if (auto part = shared_part(base, from + at, first + at, some)) parts.push_back(std::move(*part));
  }
  return parts;
}

// Which of blocks [first, first + count) of a file are no holes. Must hold: they are settled.
Result<std::vector<bool>> LsmTree::which_blocks(const Lock& lock, Inode& inode, std::uint64_t first, std::uint64_t count) {
  std::vector<bool> has(count, !inode.record.is_sparse());
  if (!inode.record.is_sparse()) return has;
  LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, inode));
  for (const FileBlobs::Run& run : large->blobs.runs(first, first + count)) {
    if (!run.part) continue;
    std::fill(has.begin() + static_cast<std::ptrdiff_t>(run.from - first), has.begin() + static_cast<std::ptrdiff_t>(run.to - first), true);
  }
  if (inode.record.blocks == 0) return has;
  LSMFS_ASSIGN(const Rows::Blocks rows, rows_.blocks(lock, inode.data_home(), BlockIndex{first}, BlockIndex{first + count}, false));
  for (const auto& [index, bytes] : rows) has[index.v - first] = true;
  return has;
}

// The same of blocks in runs, at their places in the base.
std::vector<FileBlobs::Part> LsmTree::shared_parts(const std::string& base, const Fetched::Runs& runs) {
  std::vector<FileBlobs::Part> parts;
  for (const auto& [begin, end] : runs) {
    for (std::uint64_t at = begin; at < end;) {
      if (parts.empty() || at >= parts.back().first + FileBlobs::kBlocksMax) {
        parts.emplace_back();
        parts.back().base = base;
        parts.back().from = parts.back().first = at;
      }
      FileBlobs::Part& part = parts.back();
      const std::uint64_t to = std::min(end, part.first + FileBlobs::kBlocksMax);
      if (const std::uint64_t hole = at - part.past(); hole > 0) {
        part.is_gone.resize(part.blocks);
        part.is_gone.resize(part.blocks + hole, true);
        part.gone += hole;
      }
      part.blocks = to - part.first;
      at = to;
    }
  }
  return parts;
}

// Which blocks of a base are no holes. They may be anywhere in a sparse file of any size, so it is not asked of each.
Result<Fetched::Runs> LsmTree::runs_of(const Lock& lock, Inode& inode) {
  const std::uint64_t blocks = block_count(inode.record.size);
  if (!inode.record.is_sparse()) return Fetched::Runs{{0, blocks}};
  LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, inode));
  Fetched::Runs runs;
  for (const FileBlobs::Run& run : large->blobs.runs(0, blocks)) {
    if (run.part) runs.emplace_back(run.from, run.to);
  }
  if (inode.record.blocks == 0) return runs;
  const std::string home = inode.data_home();
  const auto* const in_rows = lock.fetched().find_runs(home, inode.blocks_group);
  if (!in_rows) {
    lock.want([this, &lock, home, blocks, state = inode.blocks_group] { lock.fetched().fetch_runs(store_, home, BlockIndex{blocks}, state); });
    return make_error(EAGAIN, "");
  }
  if (!*in_rows) return in_rows->error();
  const auto middle = static_cast<std::ptrdiff_t>(runs.size());
  runs.insert(runs.end(), (*in_rows)->begin(), (*in_rows)->end());
  std::inplace_merge(runs.begin(), runs.begin() + middle, runs.end());
  return runs;
}

// A file shares these from now on. Must hold: it has nothing there, and its parts are known.
void LsmTree::add_parts(Inode& inode, std::vector<FileBlobs::Part> parts) {
  const Ino number = inode.record.number();
  BlobRows rows(batch(), number);
  for (FileBlobs::Part& part : parts) {
    rows.put(part.first, FileBlobs::encode(part));
    rows_.put_user(*keys::number_of(part.base), number, false);
    inode.record.blob_blocks += part.live();
    inode.large->blobs.insert(std::move(part));
  }
  inode.rows.reset();  // it knows nothing of parts
  inode.moved = ++moves_;
  blocks_changed(inode);
}

// ---- the source changes

// Before the blocks of a file change: if others share them, they keep what there is.
Result<void> LsmTree::unshare(const Lock& lock, Inode& inode) {
  LSMFS_TRY(own_row(lock, inode));
  Record& record = inode.record;
  if (record.has_base()) return part_from_base(lock, inode);
  if (!record.is_base) return {};
  LSMFS_TRY(settle(lock, std::max({inode.shared_group, inode.blocks_group, inode.xattrs_group})));
  const Ino old = record.number();
  const auto used = rows_.has_user(lock, old);
  if (!used && used.error().code != EUCLEAN) return used.error();
  if (used && !*used) {  // of those that cannot be read there may be one
    record.is_base = false;
    base_parts_.erase(old);  // they may change
    changed(inode);
    return {};
  }
  if (state_.next_ino >= kSnapshotsIno) return make_error(ENOSPC, "");  // no number is left
  std::vector<std::pair<std::string, std::string>> xattrs;  // those in rows move along
  for (const Xattr& xattr : record.xattrs) {
    if (xattr.row_size == 0) continue;
    auto value = xattr_value(lock, inode, xattr);
    if (!value && value.error().code != EUCLEAN) return value.error();
    if (value) xattrs.emplace_back(xattr.name, *std::move(value));  // else it is lost anyway
  }
  const std::string home = inode.home();
  LSMFS_ASSIGN(auto rows, copied_blocks(lock, inode));
  std::vector<FileBlobs::Part> parts;
  if (!rows) {
    LSMFS_ASSIGN(parts, parts_of_all(lock, inode));
  }
  LSMFS_TRY(need_room_for_names(kRecordRoom + record.xattr_names_size() + room_of(parts)));

  const Ino number = state_.next_ino;
  ++state_.next_ino.v;
  open_group().put_tail();
  rows_.put_node(old, encode(Node{home, record.size, record.blocks, record.blob_blocks}));
  note_unused(old, open_group().number);  // its users may not see all of it
  for (const auto& [name, value] : xattrs) rows_.erase_xattr(home, name);
  const std::string new_home = keys::with_number(home, number);
  rows_.know_below(new_home);
  for (const auto& [name, value] : xattrs) rows_.put_xattr(new_home, name, value);
  record.home_number = number;
  if (!record.home.empty()) record.home = new_home;
  record.is_base = false;
  end_stream(inode);
  inode.own_home.reset();
  inode.xattrs_group = open_group().number;
  begin_anew(inode, rows, std::move(parts));
  return {};
}

// All blocks of a small file, which is copied, so that it lies in one place. nullopt: it is not small, or it cannot be read.
Result<std::optional<Rows::Blocks>> LsmTree::copied_blocks(const Lock& lock, const Inode& inode) {
  const std::uint64_t blocks = block_count(inode.record.size);
  if (blocks > copied_whole() || inode.record.blob_blocks > 0) return std::optional<Rows::Blocks>();
  auto found = rows_.blocks(lock, inode.data_home(), BlockIndex{0}, BlockIndex{blocks}, true);
  if (!found && found.error().code == EAGAIN) return found.error();
  if (!found || !need_rows(found->size())) return std::optional<Rows::Blocks>();
  return std::optional(*std::move(found));
}

// What a file had under another home, it has under its own now: as rows, or else as parts.
void LsmTree::begin_anew(Inode& inode, const std::optional<Rows::Blocks>& rows, std::vector<FileBlobs::Part> parts) {
  inode.record.blocks = inode.record.blob_blocks = 0;  // those are the base's
  inode.large = std::make_unique<LargeFile>();
  inode.rows.reset();
  if (rows) {
    const std::string home = inode.home();
    for (const auto& [index, bytes] : *rows) batch().put(Family::blocks, keys::block(home, index), bytes);
    set_blocks(inode, rows->size());
    inode.moved = ++moves_;
    blocks_changed(inode);
  } else {
    add_parts(inode, std::move(parts));
  }
  changed(inode);
}

// All that a file has, as parts of where it lies now.
Result<std::vector<FileBlobs::Part>> LsmTree::parts_of_all(const Lock& lock, Inode& inode) {
  const std::string home = inode.data_home();
  LSMFS_ASSIGN(const LargeFile* const large, large_file(lock, inode));
  LSMFS_ASSIGN(const Fetched::Runs runs, runs_of(lock, inode));
  LSMFS_ASSIGN(const int depth, depth_of(lock, large->blobs, 0, block_count(inode.record.size), 0));
  const bool has_own = inode.record.blocks > 0 || large->blobs.in_blobs(0, UINT64_MAX) > 0;
  if (has_own && depth < FileBlobs::kDepthMost) return shared_parts(home, runs);
  // Those below it, and not itself over them.
  std::vector<FileBlobs::Part> parts;
  for (const auto& [from, to] : runs) {
    const Span all{.number = inode.data_number(), .from = from, .to = to, .shift = 0, .depth = 0};
    LSMFS_TRY(add_lowest(lock, large->blobs, home, all, parts));
  }
  return parts;
}

// The same of a file that has a base as a whole.
Result<void> LsmTree::part_from_base(const Lock& lock, Inode& inode) {
  LSMFS_ASSIGN(auto rows, copied_blocks(lock, inode));
  std::vector<FileBlobs::Part> parts;
  if (!rows) {
    LSMFS_ASSIGN(parts, parts_of_all(lock, inode));
  }
  LSMFS_TRY(need_room_for_names(kRecordRoom + room_of(parts)));

  open_group().put_tail();
  leave_base(inode);
  rows_.know_below(inode.home());
  begin_anew(inode, rows, std::move(parts));
  return {};
}

// Blocks of a home as parts of a file, each of the base where it lies in the end. Must hold: none of them is a hole.
Result<void> LsmTree::add_lowest(const Lock& lock, const FileBlobs& blobs, const std::string& home, const Span& span, std::vector<FileBlobs::Part>& parts) {
  for (const FileBlobs::Run& run : blobs.runs(span.from, span.to)) {
    if (run.part && run.part->shared()) {
      if (span.depth > 2 * FileBlobs::kDepthMost) return damaged_base(run.part->base);
      const std::uint64_t at = run.from - run.part->first + run.part->from;
      LSMFS_ASSIGN(const auto base, base_parts(lock, run.part->base));
      const Span below{.number = *keys::number_of(run.part->base), .from = at, .to = at + (run.to - run.from),
                       .shift = span.shift + at - run.from, .depth = span.depth + 1};
      LSMFS_TRY(add_lowest(lock, *base, run.part->base, below, parts));
      continue;
    }
    for (std::uint64_t at = run.from; at < run.to;) {
      FileBlobs::Part* last = parts.empty() ? nullptr : &parts.back();
      if (!last || last->base != home || last->past() != at - span.shift || last->from + last->blocks != at || last->blocks == FileBlobs::kBlocksMax) {
        last = &parts.emplace_back();
        last->base = home;
        last->from = at;
        last->first = at - span.shift;
      }
      const std::uint64_t count = std::min(run.to - at, FileBlobs::kBlocksMax - last->blocks);
      last->blocks += count;
      at += count;
    }
  }
  return {};
}

}  // namespace lsmfs
