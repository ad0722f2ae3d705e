// Rows: what lies in the store for directories, files and their attributes, by home. Reads of rows that are settled, and changes that go
// into the open group. The keys of rows are made here, but for those of a listing, and for a row whose key its inode knows.
//
// What it is not: it knows no inodes, and whether a row is settled is its caller's to say (History::settle).
//
// Locks: what is LSMFS_LOCKED needs the tree's mutex, and does not wait. Long reads are called without it. After one its caller looks
// whether the home has moved meanwhile (LsmTree::with_steady_home).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "tree/block_cursor.h"
#include "tree/fetched.h"
#include "tree/files_ahead.h"
#include "tree/history.h"
#include "tree/parked_cursors.h"
#include "tree/prefetcher.h"
#include "tree/tree_lock.h"

namespace lsmfs {

class Rows {
 public:
  Rows(Store& store, Clock& clock, const History& history);

  // ---- short reads. nullopt: there is none. EAGAIN: it is not in memory, and `lock` wants it.
  using Value = Result<std::optional<std::string>>;
  Value entry(const TreeLock& lock, const std::string& dir_home, std::string_view name) const LSMFS_LOCKED;
  Value linked(const TreeLock& lock, Ino ino) const LSMFS_LOCKED;  // the record of a file with several names
  Result<bool> has_linked(const TreeLock& lock) const LSMFS_LOCKED;  // any
  Value xattr(const TreeLock& lock, const std::string& home, std::string_view name) const LSMFS_LOCKED;
  // The rows of blocks [from, to) that exist, by index; without `values` only which there are. EUCLEAN: one is damaged.
  using Blocks = std::vector<std::pair<BlockIndex, std::string>>;
  Result<Blocks> blocks(const TreeLock& lock, const std::string& home, BlockIndex from, BlockIndex to, bool values) const LSMFS_LOCKED;

  // Some rows of a directory's entries in order, by key, from the first after the name `after` on; "": from the beginning. No more than are
  // needed for so many bytes, but two. None: there are no more.
  using Pairs = Result<std::vector<std::pair<std::string, std::string>>>;
  Pairs entries(const TreeLock& lock, const std::string& dir_home, std::string_view after, std::size_t most) const LSMFS_LOCKED;

  // What has been read for the operation that holds `lock`, and is still as it was.
  Fetched& fetched(const TreeLock& lock) const LSMFS_LOCKED;

  // Of a home by its number: the rows of a file's parts, by key; that of a base that no file has; and whether somebody uses it as a base.
  Pairs blobs(const TreeLock& lock, Ino number) const LSMFS_LOCKED;
  Value node(const TreeLock& lock, Ino number) const LSMFS_LOCKED;
  Result<bool> has_user(const TreeLock& lock, Ino base) const LSMFS_LOCKED;
  // All who use it, by the numbers of their homes; nullopt: more than so many do.
  struct User {
    Ino number;
    bool whole;  // all that the base has is what it has
  };
  Result<std::optional<std::vector<User>>> users(const TreeLock& lock, Ino base, std::size_t most) const LSMFS_LOCKED;

  // Which of blocks [from, to) have rows, in order: no more than are needed for so many bytes of keys, but two. None: there are none.
  Result<std::vector<std::uint64_t>> some_blocks(const TreeLock& lock, const std::string& home, BlockIndex from, BlockIndex to, std::size_t most) const
      LSMFS_LOCKED;

  // The patches of blocks [from, to) that lie in blobs, by block; `number` as above.
  Result<Blocks> blob_patches(const TreeLock& lock, Ino number, BlockIndex from, BlockIndex to) const LSMFS_LOCKED;
  // The same as they are now, to be read later and without the lock.
  std::unique_ptr<Cursor> blob_patches_now(Ino number, BlockIndex from, BlockIndex to) const LSMFS_LOCKED;

  // ---- long reads: from any thread, without the lock
  // Of a file's rows in order. What it reads stays out of the cache.
  BlockCursor walk(const std::string& home, BlockIndex from, BlockIndex to, Wait wait) const;
  // Fills `to` from the rows under `home`. Where there are none come zeros, or what is there stays. `epoch` is epoch() when the home was
  // looked up: a parked cursor of the same epoch shows the same rows. EAGAIN: they are not all in memory, and `wait` is no.
  enum class Elsewhere : std::uint8_t { zeros, stays };
  Result<void> read(const std::string& home, ByteOffset offset, MutableBytes to, Elsewhere elsewhere, std::uint64_t epoch, Wait wait);
  // The same, of which no prefetcher hears that goes by the order of keys: FilesAhead knows the file.
  Result<void> read_apart(const std::string& home, ByteOffset offset, MutableBytes to, Elsewhere elsewhere, std::uint64_t epoch, Wait wait);
  std::uint64_t epoch() const LSMFS_LOCKED { return epoch_; }

  // ---- listings
  // A cursor over rows of names in memory, on the first row from `target` on. It may be parked where the listing ends.
  ParkedCursors::Place seek_names(const std::string& target) LSMFS_LOCKED;
  void park_names(ParkedCursors::Place place) LSMFS_LOCKED;

  // ---- what is read ahead, and kept. Rows of names from one key to another, or an entry, are about to be used.
  void note_names(std::string_view from, std::string_view to, Wait wait) { names_ahead_.note(from, to, wait); }
  void note_entry(const std::string& dir_home, std::string_view name, Wait wait);
  FilesAhead& files_ahead() { return files_ahead_; }
  void settled(const Group& group) LSMFS_LOCKED;  // its rows show; parked cursors do not
  void settled_bulk() LSMFS_LOCKED { ++epoch_; }  // rows show that came past the groups
  // Cursors keep tables and blocks that are not needed any more: those that read ahead; also all that are parked; those parked for long.
  void let_go_ahead();
  void let_go();
  void let_go_of_idle();
  // While one lives, no cursor is parked: while somebody waits for space, it would keep some, and nobody would take it away.
  struct NobodyParks {
    explicit NobodyParks(Rows& rows) : names(rows.parked_names_), blocks(rows.parked_blocks_) {}
    const ParkedCursors::Closed names, blocks;
  };

  // ---- changes of names
  void put_entry(const std::string& dir_home, std::string_view name, std::string_view row) LSMFS_LOCKED;
  void erase_entry(const std::string& dir_home, std::string_view name) LSMFS_LOCKED;
  void erase_linked(Ino ino) LSMFS_LOCKED;
  void erase_orphan(Ino ino) LSMFS_LOCKED;
  void put_xattr(const std::string& home, std::string_view name, std::string_view value) LSMFS_LOCKED;
  void erase_xattr(const std::string& home, std::string_view name) LSMFS_LOCKED;

  void put_node(Ino number, std::string_view row) LSMFS_LOCKED;
  void erase_node(Ino number) LSMFS_LOCKED;
  void put_user(Ino base, Ino user, bool whole) LSMFS_LOCKED;
  void erase_user(Ino base, Ino user) LSMFS_LOCKED;

  // ---- changes of blocks
  // Up to this many rows are erased one by one, more by one range (which costs every later reader).
  static constexpr std::uint64_t kPointEraseMax = 1024;
  void erase_blocks(const std::string& home, BlockIndex from, BlockIndex to, std::uint64_t rows) LSMFS_LOCKED;  // so many of which exist
  void erase_blocks(const std::string& home, const std::vector<std::uint64_t>& indexes) LSMFS_LOCKED;
  void erase_block(const std::string& home, BlockIndex index) LSMFS_LOCKED;
  // Writes `bytes` at `at` in a block of a file. `replaces`: nothing that the row holds now is left of it. Must hold: a tail in the open
  // group is of this block.
  void write_block(Ino ino, const std::string& home, BlockIndex index, std::size_t at, std::string_view bytes, bool replaces) LSMFS_LOCKED;
  // Must hold, of both: there is such a row, or it would make one; and no tail is in the open group.
  void patch_block(const std::string& home, BlockIndex index, std::size_t at, std::string_view bytes) LSMFS_LOCKED;
  void cut_block(const std::string& home, BlockIndex index, std::size_t size) LSMFS_LOCKED;

  // ---- what was lost with a damaged part of a table, and is known again since only what the open group puts is there
  bool has_lost() const { return store_.has_lost(); }
  bool blocks_lost(const std::string& home, BlockIndex from, BlockIndex to) const LSMFS_LOCKED;
  void know_blocks(const std::string& home, BlockIndex from, BlockIndex to) LSMFS_LOCKED;
  void know_entries(const std::string& home) LSMFS_LOCKED;  // of a directory
  void know_below(const std::string& home) LSMFS_LOCKED;    // all that can lie there, and further below

 private:
  Value row(const TreeLock& lock, std::string key) const LSMFS_LOCKED;  // of names
  Pairs in_range(const TreeLock& lock, const Fetched::Range& range) const LSMFS_LOCKED;  // all, or some of a range with a bound
  Batch& batch() const LSMFS_LOCKED { return history_.open().batch; }

  Store& store_;
  const History& history_;
  std::uint64_t epoch_ LSMFS_GUARDED_BY(tree_mutex) = 0;  // commits that touched family blocks
  ParkedCursors parked_names_, parked_blocks_;            // of the epochs history_.committed() and epoch_
  Prefetcher names_ahead_, blocks_ahead_;
  FilesAhead files_ahead_;
};

}  // namespace lsmfs
