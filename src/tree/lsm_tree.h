// LsmTree: the Tree over a Store. One class, its operations in files by subject:
//   lsm_tree.cc        open, close, commits, the background thread
//   inodes.cc          lookup, forget, getattr, setattr, loading and saving of records
//   entries.cc         make, link, unlink, rmdir
//   rename.cc          rename
//   directory_walk.cc  readdir
//   file_data.cc       read, write, truncate
//
// How an operation works: it takes the mutex, does all that can fail (finding its inodes, reading
// rows), and then changes the inodes in memory and adds its rows to the group. The group is what
// the next commit writes: the rows that operations since the last one have added, in order, and at
// its end the records of all inodes that they changed, once each. A commit holds whole operations
// only, so that the store goes from one moment of the tree to a later one.
//
// Whoever reads rows that the group may change commits it first (settle), or knows the answer from
// memory: entries that the group adds or takes away are in group_entries_, and changed inodes stay
// in the table until their records are committed.
//
// Locks: one mutex guards the inode table, the group and every commit. It is never held while file
// data is read, nor while a sync waits for the device. Order: mutex_, then a Prefetcher's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lsmfs/tree.h"
#include "tree/inode_table.h"
#include "tree/prefetcher.h"
#include "tree/record.h"

namespace lsmfs {

class LsmTree final : public Tree {
 public:
  LsmTree(Store& store, const TreeOptions& options, State state);
  ~LsmTree() override;
  Result<void> start();  // loads the root, sweeps orphans, starts the background thread
  Result<void> close() override;

  Result<std::optional<Attr>> lookup(Ino dir, std::string_view name, Wait wait) override;
  void forget(Ino ino, std::uint64_t lookups) override;
  Result<Attr> getattr(Ino ino, Wait wait) override;
  Result<Attr> setattr(Ino ino, const AttrChange& change, Wait wait) override;
  Result<std::string> readlink(Ino ino, Wait wait) override;
  Result<Attr> make(Ino dir, std::string_view name, const NewInode& inode, Wait wait) override;
  Result<Attr> link(Ino ino, Ino dir, std::string_view name, Wait wait) override;
  Result<void> unlink(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rmdir(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                      Wait wait) override;
  Result<void> readdir(Ino dir, std::uint64_t cookie, bool plus, const DirVisitor& visit, Wait wait) override;
  Result<std::size_t> read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait) override;
  Result<void> write(Ino ino, ByteOffset offset, Bytes data, Wait wait) override;
  Result<void> sync() override;
  SpaceInfo space() const override;
  TreeCounts counts() const override;

 private:
  using Lock = std::unique_lock<std::mutex>;

  // A group over one of these is committed by the next change.
  static constexpr std::size_t kGroupBytes = 256 * KiB;
  static constexpr std::size_t kGroupRecords = 512;

  // A cursor over all blocks that a reader left where its read ended; the next read in key order
  // goes on from there without a seek. It shows the blocks as of `epoch`.
  struct ParkedCursor {
    std::unique_ptr<Cursor> cursor;
    std::uint64_t epoch = 0;
    std::chrono::steady_clock::time_point used;
  };

  // ---- locking and committing (lsm_tree.cc)
  Result<Lock> acquire(Wait wait);              // EAGAIN when taken and wait is no
  // The same for an operation that changes something; EROFS after a failure. Commits a group that
  // has become large: here, where EAGAIN still leaves everything as it was.
  Result<Lock> acquire_for_change(Wait wait);
  Result<void> commit_group(const Lock& lock, Wait wait);
  void begin_group();                           // something is in the group now
  Result<void> need_room(std::size_t bytes) const;  // ENOSPC
  Result<void> sweep_orphans();
  void background();

  // ---- inodes (inodes.cc)
  Result<Inode*> find(Ino ino) const;         // ESTALE when not in the table
  Result<Inode*> find_directory(Ino ino) const;  // also ENOTDIR; ENOENT when removed
  Result<Inode*> load(Inode& dir, std::string_view name, Wait wait);  // nullptr: no such name
  Result<Inode*> adopt(Inode& dir, std::string_view name, std::string_view row, Wait wait);
  void changed(Inode& inode);                 // its record goes into the group
  void entry_changed(Inode& dir, std::string_view name, Ino ino);  // ino 0: it is gone
  void drop_if_unused(Inode* inode);
  void erase_removed(Inode& inode);     // the rows of an inode without name and lookups
  // Drops an inode that was loaded for one operation when that operation ends, unless it is in use.
  struct Loaded {
    LsmTree& tree;
    Inode* inode = nullptr;
    ~Loaded() { tree.drop_if_unused(inode); }
  };
  static void touch(Record& directory, const Time& now) { directory.mtime = directory.ctime = now; }

  // ---- names (entries.cc)
  void remove_name(Inode& dir, std::string_view name, Inode& inode, const Time& now);
  Result<void> remove(Ino dir, std::string_view name, bool directory, Wait wait);
  void count(const Record& record, int change);

  // ---- rename (rename.cc)
  using Rows = std::vector<std::pair<std::string, std::string>>;
  bool is_within(const Inode& inode, const Inode& ancestor) const;
  bool takes_blocks_along(const Inode& inode, const std::string& new_home) const;
  void place(Inode& inode, Inode& dir, std::string_view name, const Rows& blocks, const Time& now);

  // ---- data (file_data.cc)
  // Commits the group when it holds blocks of this inode, so that cursors see them.
  Result<void> settle(const Lock& lock, const Inode& inode, Wait wait);
  void erase_blocks(const std::string& home, BlockIndex from, BlockIndex to);
  Result<Rows> load_blocks(const std::string& home, BlockIndex from, BlockIndex to, bool values, Wait wait) const;
  Result<void> resize(const Lock& lock, Inode& inode, std::uint64_t size, Wait wait);
  Result<std::size_t> read_blocks(const std::string& home, ByteOffset offset, MutableBytes to, std::uint64_t epoch, Wait wait);
  void note_access_time(Inode& inode);

  Store& store_;
  const TreeOptions options_;

  mutable std::mutex mutex_;
  InodeTable inodes_;
  // The name that was last found to be absent, until the next commit: a create follows the lookup
  // that finds no such name, and need not look again.
  struct {
    Ino dir;
    std::string name;
  } absent_;
  State state_;
  std::optional<Error> failure_;       // a commit failed: read-only from then on

  Batch group_;
  std::vector<Ino> group_records_;     // inodes whose records go with the group
  std::unordered_map<std::string, Ino> group_entries_;  // keys of entries it changes; 0: takes away
  std::vector<Ino> group_directories_; // those with entries_in_group
  bool group_blocks_ = false;          // it changes family blocks
  std::uint64_t blocks_epoch_ = 0;     // commits that touched family blocks
  std::atomic<std::uint64_t> moves_{0};  // renames that gave blocks another home
  std::optional<std::chrono::steady_clock::time_point> dirty_since_;  // the oldest change not synced
  bool stop_ = false;
  bool closed_ = false;
  std::condition_variable wake_;

  std::mutex parked_mutex_;
  ParkedCursor parked_;

  Prefetcher names_ahead_, blocks_ahead_;
  std::thread background_;
};

}  // namespace lsmfs
