// LsmTree: the Tree over a Store. One class, its operations in files by subject:
//   lsm_tree.cc        open, close, commits, the background thread
//   inodes.cc          lookup, forget, getattr, setattr, loading and saving of records
//   entries.cc         make, link, unlink, rmdir
//   rename.cc          rename
//   directory_walk.cc  readdir
//   file_data.cc       read, write, truncate
//
// How an operation works: it takes the mutex, finds its inodes (reading rows where needed), builds
// one batch from changed copies of their records, commits it, and only then changes what is in
// memory. So an error at any point leaves memory and store as they were.
//
// Locks: one mutex guards the inode table, the state and every commit. It is never held while
// file data is read, nor during sync(). Order: mutex_, then a Prefetcher's or the reaper's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
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

  // Data of a removed inode that still has to be erased.
  struct Doomed {
    Ino ino;
    std::string home;
    std::uint64_t size;
  };

  // A cursor over all blocks that a reader left where its read ended; the next read in key order
  // goes on from there without a seek. It shows the blocks as of `epoch`.
  struct ParkedCursor {
    std::unique_ptr<Cursor> cursor;
    std::uint64_t epoch = 0;
    std::chrono::steady_clock::time_point used;
  };

  // ---- locking and committing (lsm_tree.cc)
  Result<Lock> acquire(Wait wait);              // EAGAIN when taken and wait is no
  Result<Lock> acquire_for_change(Wait wait);   // the same; EROFS, or EIO after a failure
  Result<void> commit(const Lock& lock, Batch& batch, Wait wait, bool touches_blocks);
  Result<void> need_room(std::size_t bytes) const;  // ENOSPC
  void put_state(Batch& batch, const State& state) const;
  Result<void> sweep_orphans();
  void background();
  Result<void> write_lazy_times();  // access times in memory to the store
  Result<void> reap(Wait wait);     // erases what is in doomed_

  // ---- inodes (inodes.cc)
  Result<Inode*> find(Ino ino) const;         // ESTALE when not in the table
  Result<Inode*> find_directory(Ino ino) const;  // also ENOTDIR; ENOENT when removed
  Result<Inode*> load(Inode& dir, std::string_view name, Wait wait);  // nullptr: no such name
  Result<Inode*> adopt(Inode& dir, std::string_view name, std::string_view row, Wait wait);
  void drop_if_unused(const Lock& lock, Inode* inode);
  // Drops an inode that was loaded for one operation when that operation ends, unless it is in use.
  struct Loaded {
    LsmTree& tree;
    const Lock& lock;
    Inode* inode = nullptr;
    ~Loaded() { tree.drop_if_unused(lock, inode); }
  };
  void save(Batch& batch, const Inode& inode, const Record& record) const;
  static void touch(Record& directory, const Time& now) { directory.mtime = directory.ctime = now; }

  // ---- names (entries.cc)
  struct Removal {  // what taking away one name of an inode does to it
    Record record;
    bool last = false;      // that was the last name
    bool has_row = false;
  };
  Removal remove_name(Batch& batch, const Inode& inode, std::string_view entry_key, const Time& now) const;
  void apply_removal(Inode& inode, Removal removal);
  Result<void> remove(Ino dir, std::string_view name, bool directory, Wait wait);
  static void count(State& state, const Record& record, int change);

  // ---- rename (rename.cc)
  struct Placement {  // what giving an inode another name does to it
    Record record;
    bool moved_blocks = false;
  };
  bool is_within(const Inode& inode, const Inode& ancestor) const;
  Result<Placement> place(Batch& batch, const Inode& inode, const std::string& dir_home, std::string_view name,
                          const Time& now, Wait wait) const;
  void apply_placement(Inode& inode, Placement placement, const std::string& dir_home, std::string_view name, Ino dir);

  // ---- data (file_data.cc)
  Result<void> erase_blocks(Batch& batch, const std::string& home, BlockIndex from, BlockIndex to, bool dense) const;
  Result<std::uint64_t> count_blocks(const std::string& home, BlockIndex from, BlockIndex to, Wait wait) const;
  Result<void> resize(Batch& batch, const Inode& inode, Record& record, std::uint64_t size, Wait wait) const;
  Result<void> move_blocks(Batch& batch, const std::string& from, const std::string& to, Wait wait) const;
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
  std::vector<Ino> lazy_times_;        // inodes with atime_dirty
  std::vector<Doomed> doomed_;
  std::uint64_t blocks_epoch_ = 0;     // commits that touched family blocks
  std::atomic<std::uint64_t> moves_{0};  // commits that gave blocks another home
  std::optional<std::chrono::steady_clock::time_point> dirty_since_;  // the oldest commit not synced
  bool stop_ = false;
  bool closed_ = false;
  std::condition_variable wake_;

  std::mutex parked_mutex_;
  ParkedCursor parked_;

  Prefetcher names_ahead_, blocks_ahead_;
  std::thread background_;
};

}  // namespace lsmfs
