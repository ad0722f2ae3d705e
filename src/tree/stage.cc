// Directories that get their name when all that is to lie below them has been made: as of one commit it is there as a whole. Until then such a
// directory is an orphan with entries, as one is that remove_tree() has taken away. So a crash leaves what a sweep takes away.
#include <sys/stat.h>

#include "tree/inode_flags.h"
#include "tree/lsm_tree.h"

namespace lsmfs {

Result<Attr> LsmTree::stage(Ino dir_ino, std::string_view name, const NewInode& what, Wait wait) {
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<Attr> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * dir, find_directory(dir_ino));
    if (!S_ISDIR(what.mode)) return make_error(ENOTDIR, "");
    if (name.empty() || name.find('/') != name.npos) return make_error(EINVAL, "");
    if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
    LSMFS_TRY(may_add_to(*dir));
    LSMFS_TRY(need_room_for_names(kRecordRoom));
    LSMFS_ASSIGN(const Inherited inherited, inherit(lock, *dir, what));
    return add_unnamed(*dir, name, what, inherited);
  });
}

// nullptr: what is written below it comes as any other data.
Result<std::shared_ptr<BulkWriter>> LsmTree::bulk_writer_of(Ino staged) {
  const Lock lock(mutex_);
  LSMFS_ASSIGN(const Inode* const directory, find(staged));
  if (!directory->is_staged()) return std::shared_ptr<BulkWriter>();
  const auto [known, is_new] = bulk_writers_.try_emplace(staged);
  if (is_new) known->second = store_.bulk_writer();
  return known->second;
}

Result<void> LsmTree::write_staged(Ino staged, Ino ino, ByteOffset offset, Bytes data) {
  LSMFS_ASSIGN(const auto writer, bulk_writer_of(staged));
  if (!writer) return write(ino, offset, data, Wait::yes, ChangeTime::stays);
  LSMFS_TRY(writer->wait());
  return attempt(Wait::yes, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, Wait::yes, ino));
    // Else it has been given up meanwhile.
    if (const auto known = bulk_writers_.find(staged); known == bulk_writers_.end() || known->second != writer) return make_error(ENOENT, "");
    LSMFS_ASSIGN(Inode * inode, find(ino));
    Record& record = inode->record;
    const std::uint64_t first = offset.v / kBlockSize, blocks = block_count(data.size());
    const bool is_next = offset.v % kBlockSize == 0 && first >= block_count(record.size) && record.size % kBlockSize == 0;
    if (!record.is_regular() || record.blob_blocks > 0 || !is_next || open_group().find_new(ino)) return make_error(EINVAL, "");
    if (data.empty()) return {};
    if (offset.v > kFileSizeMax || data.size() > kFileSizeMax - offset.v) return make_error(EFBIG, "");
    LSMFS_TRY(need_rows(blocks));
    if (first > block_count(record.size)) before_holes(*inode);
    const std::string home = inode->home();
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const std::size_t at = i * kBlockSize;
      open_group().bulk(writer, keys::block(home, BlockIndex{first + i}), as_text(data.subspan(at, std::min<std::size_t>(kBlockSize, data.size() - at))));
    }
    set_blocks(*inode, record.blocks + blocks);
    record.size = offset.v + data.size();
    if (inode->rows) inode->rows->add(first, first + blocks);
    after_holes(*inode);
    blocks_changed(*inode);
    changed(*inode);
    return {};
  });
}

Result<void> LsmTree::settle_staged(Ino staged) {
  std::shared_ptr<BulkWriter> writer;
  {
    Lock lock(mutex_);
    const auto known = bulk_writers_.find(staged);
    if (known == bulk_writers_.end() || !known->second) return {};
    writer = known->second;
    LSMFS_TRY(commit_all(lock));
  }
  LSMFS_TRY(writer->finish());
  const Lock lock(mutex_);
  if (const auto known = bulk_writers_.find(staged); known != bulk_writers_.end()) known->second = nullptr;
  rows_.settled_bulk();
  return {};
}

// What is below it is about to be erased, and no row may come after that.
void LsmTree::abandon_bulk(Ino staged) {
  const auto known = bulk_writers_.extract(staged);
  if (known.empty() || !known.mapped()) return;
  known.mapped()->abandon();
  ended_bulk_.push_back(known.mapped());
}

// Nobody holds on to it any more, so it will not get a name.
void LsmTree::give_up(Inode& staged) {
  staged.linkable = false;
  abandon_bulk(staged.ino());
  if (staged.record.size == 0) return;
  ++removals_;
  removed_trees_.push_front({staged.ino()});
  upkeep_.removed_tree(clock_.now());
  look_again_in_time();
}

}  // namespace lsmfs
