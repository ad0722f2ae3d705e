// LsmTree: the Tree over a Store. It stands on two parts, and is the third, what each call means:
//   history.h          groups of changes, and how far they are committed
//   rows.h             what lies in the store by home, read and changed
// Its operations are in files by subject:
//   lsm_tree.cc        open, close, what waits for commits, room, the background thread
//   inodes.cc          lookup, forget, getattr, setattr, loading and saving of records
//   entries.cc         make, link, unlink, rmdir
//   rename.cc          rename
//   clones.cc          a directory shows what another one has
//   clone_links.cc     where names of one file lie below it
//   snapshot_sizes.cc  how much a snapshot has, and has alone
//   differences.cc     what two directories do not have in common
//   changes.cc         which paths have changed since a moment
//   remove_tree.cc     a directory goes with all that lies below it
//   roll_back.cc       a directory gets what a snapshot has
//   sweep.cc           what lay below it is taken away
//   stage.cc           directories that are filled before they have a name
//   relocation.cc      what renames left behind moves to where its path says
//   directory_walk.cc  readdir
//   file_data.cc       read, write, truncate
//   blobs.cc           which blocks of a large file lie outside of the rows
//   shares.cc          files that have blocks in common
//   bases.cc           what nobody sees of these any more goes
//   holes.cc           fallocate, seek
//   losses.cc          what is lost with a damaged part of a table
//   xattrs.cc          extended attributes
//
// How an operation works: it takes the mutex, does all that can fail (finding its inodes, reading
// rows), and then changes the inodes in memory and adds its rows to the open group: the rows that
// operations have added, in order, and at its end the records of all inodes that they changed, once
// each. When the group is large it is sealed, and the committer writes it while the next one fills.
// A group holds whole operations only and groups are committed in order, so that the store goes from
// one moment of the tree to a later one.
//
// Whoever reads rows that a group may change waits for its commit first (History::settle), or knows the
// answer from memory: the groups know the entries that they add or take away, and changed inodes
// stay in the table until their records are committed.
//
// Nobody waits with the mutex held, neither for a commit nor for the device. An operation that needs a commit says which, and one that
// does not find a row in memory says what is to be read. It ends with EAGAIN before it has changed anything, and is begun again when
// the commit is there, or the row (attempt). What takes a Lock& may wait for a commit, and gives the lock up meanwhile. Only start() reads
// the device with it, when there is nobody else.
//
// Locks: one mutex guards the inode table, the history and the rows. A function without LSMFS_LOCKED is called without it. Order:
// reconfiguring_, sizing_ or comparing_, mutex_, then those of the parts: the committer's, a prefetcher's, that of parked cursors.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "lsmfs/tree.h"
#include "tree/acl.h"
#include "tree/blob_readers.h"
#include "tree/blob_rows.h"
#include "tree/change_log.h"
#include "tree/history.h"
#include "tree/inode_table.h"
#include "tree/record.h"
#include "tree/referred_bytes.h"
#include "tree/rows.h"
#include "tree/streams.h"
#include "tree/tree_lock.h"
#include "tree/unseen.h"
#include "tree/upkeep.h"

namespace lsmfs {

class LsmTree final : public Tree, private History::Client {
 public:
  LsmTree(Store& store, const TreeOptions& options, State state);
  ~LsmTree() override;
  Result<void> start();  // loads the root, sweeps orphans, starts the background thread
  Result<void> close() override;

  Result<std::optional<Attr>> lookup(Ino dir, std::string_view name, Wait wait) override;
  void forget(Ino ino, std::uint64_t lookups) override;
  std::vector<Ino> surplus() override;
  Result<Attr> getattr(Ino ino, Wait wait) override;
  Result<Ino> directory_of(Ino ino, Wait wait) override;
  Result<Attr> setattr(Ino ino, const AttrChange& change, Wait wait) override;
  Result<std::string> readlink(Ino ino, Wait wait) override;
  Result<Attr> make(Ino dir, std::string_view name, const NewInode& inode, Wait wait) override;
  Result<Attr> make_unnamed(Ino dir, const NewInode& inode, Wait wait) override;
  Result<Attr> link(Ino ino, Ino dir, std::string_view name, Wait wait) override;
  Result<Attr> stage(Ino dir, std::string_view name, const NewInode& inode, Wait wait) override;
  Result<void> write_staged(Ino staged, Ino ino, ByteOffset offset, Bytes data) override;
  Result<void> settle_staged(Ino staged) override;
  Result<void> unlink(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rmdir(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                      Wait wait, Owner whiteout_owner) override;
  Result<std::string> remove_tree(Ino dir, Ino parent, Wait wait) override;
  Result<void> clone(Ino dir, Ino to, std::string_view name, Wait wait) override;
  Result<SnapshotInfo> snapshot_info(Ino ino, Wait wait) override;
  Result<SnapshotSizes> snapshot_sizes(Ino ino, const Stop& stop) override;
  Result<DifferencesStep> differences(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) override;
  Result<ChangesStep> changes(Ino dir, const ChangesAsked& asked, const Stop& stop) override;
  Result<std::vector<SweptEntry>> roll_back(Ino dir, Ino snapshot, Wait wait) override;
  bool in_use(Ino dir, std::string_view name) override;
  Result<bool> sweep() override;
  void on_swept(std::function<void(std::vector<SweptEntry>)> told) override;
  Result<void> readdir(Ino dir, std::uint64_t cookie, AttrsOf attrs, const DirVisitor& visit, Wait wait,
                       AccessTime atime) override;
  Result<std::size_t> read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime) override;
  Result<void> write(Ino ino, ByteOffset offset, Bytes data, Wait wait, ChangeTime time) override;
  Result<ByteCount> copy_range(Ino from, ByteOffset at, Ino to, ByteOffset to_at, ByteCount length, Wait wait) override;
  Result<void> fallocate(Ino ino, int mode, ByteOffset offset, ByteCount length, Wait wait) override;
  Result<ByteOffset> seek(Ino ino, ByteOffset offset, int whence, Wait wait) override;
  Result<std::string> getxattr(Ino ino, std::string_view name, Wait wait) override;
  Result<void> setxattr(Ino ino, std::string_view name, std::string_view value, int flags, Wait wait) override;
  Result<void> removexattr(Ino ino, std::string_view name, Wait wait) override;
  Result<std::string> listxattr(Ino ino, Wait wait) override;
  Result<void> sync() override;
  Result<bool> relocate() override;
  Result<void> drop_caches() override;
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override { return store_.trim(range, stop); }
  Result<ScrubStep> scrub(ScrubPosition& position, const Stop& stop) override;
  Result<void> reconfigure(const TreeSettings& settings) override;
  bool read_only() const override;
  Result<SpaceInfo> space(Wait wait) override;
  bool room_comes(Wait wait, std::uint64_t& seen) override;
  TreeCounts counts() const override;
  TreeActivity activity() const override;

 private:
  using Lock = TreeLock;
  // While one lives, nobody else begins to change anything: an operation that waited for one commit after the other, since others
  // went on to change what it needs, gets its turn.
  class Alone {
   public:
    Alone(LsmTree& tree, Lock& lock) LSMFS_LOCKED;  // waits for others that are alone
    ~Alone() LSMFS_LOCKED;
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    LsmTree& tree_;
  };
  enum class Turns : int { alone = 1, few = 3 };  // so many among others, and then alone
  static constexpr int kReadsMost = 16;           // likewise, of what is to be read: each finds most of it at once, or nearly

  // A large group is passed on by the next change. While the one before it is still being committed it may grow, up to kGroupGrowth
  // times as much; and where that would cut off a change from what the group has not made rows of yet, up to kGroupMost times.
  static constexpr std::size_t kGroupGrowth = 4;
  static constexpr std::size_t kGroupMost = 6;
  static constexpr std::size_t kStreamedMost = 2;  // the same of what it has for blobs, for which only streams wait
  // What the log and the tables may need for one more record, generously; for the check of free space.
  static constexpr std::size_t kRecordRoom = 16 * KiB;
  static constexpr std::uint64_t kLittleRoom = 16 * MiB;
  static constexpr std::chrono::milliseconds kForgottenIn{1000}, kForgottenSoon{50};
  static constexpr std::size_t kRecordBytes = 256;  // what they need on average

  // ---- locking and committing (lsm_tree.cc)
  // Runs an operation with the lock held, again after each commit and each read that it wants. EAGAIN: it wants one, or the lock is taken,
  // and `wait` is no. Not analysed: the operation is.
  template <class Operation>
  std::invoke_result_t<Operation&, Lock&> attempt(Wait wait, Operation&& operation, Turns turns = Turns::few) LSMFS_NOT_ANALYSED;
  // What an operation that changes something does first; EROFS after a failure. Passes on a group that has become large: here, where
  // EAGAIN still leaves everything as it was, and where the lock may be given up, since nothing has been looked at yet.
  // `of`: what it changes, which is better not cut off from the group's tail, or from what the group has of it as of a new file.
  Result<void> begin_change(Lock& lock, Wait wait, Ino of = {}) LSMFS_LOCKED;
  // The same of what the tree does by itself: streams do not wait for it.
  Result<void> begin_own_change(Lock& lock, Wait wait, Ino of = {}) LSMFS_LOCKED;
  Ino inode_of(Ino dir, std::string_view name) LSMFS_LOCKED;  // if it is in memory
  bool erased_matters() const LSMFS_LOCKED;
  // What an operation does first that changes an access time at most: a walk over many files would otherwise end in one group of all of
  // them, for whose commit everybody waits.
  void pass_on_for_access(Lock& lock) LSMFS_LOCKED;
  bool ends() const LSMFS_LOCKED { return closed_ || options_.read_only; }  // unless a remount lets it be changed again
  bool can_change() const LSMFS_LOCKED { return !options_.read_only && !history_.failure(); }
  Result<void> let_others_pass(Lock& lock, Wait wait, Ino stream) LSMFS_LOCKED;  // before it goes on
  Result<void> pass_on(Lock& lock, Wait wait, Ino of = {}) LSMFS_LOCKED;         // the open group, if large
  Result<void> commit_all(Lock& lock) LSMFS_LOCKED;                              // both groups; the lock is given up meanwhile
  void await_commit(Lock& lock, std::uint64_t group) LSMFS_LOCKED;               // History::await(), without parked cursors
  // Of History::Client.
  void put_records(Group& group) LSMFS_LOCKED override;
  void settled(const Group& group) LSMFS_LOCKED override;
  void keep(Group& group) LSMFS_LOCKED override;  // blobs.cc
  void committed(const Group& group) LSMFS_LOCKED override;
  void begin_group() LSMFS_LOCKED;  // something is in the group now
  Group& open_group() const LSMFS_LOCKED { return history_.open(); }
  Result<void> settle(const Lock& lock, std::uint64_t group) const LSMFS_LOCKED { return history_.settle(lock, group); }
  // ENOSPC: there is no space for so many rows that are new, bytes of them, bytes of names, bytes that replace rows.
  Result<void> need_rows(std::uint64_t rows) const LSMFS_LOCKED;
  Result<void> need_room(std::uint64_t bytes) const LSMFS_LOCKED { return need_room(store_.room(), bytes); }
  Result<void> need_room(const Store::Room& room, std::uint64_t bytes) const LSMFS_LOCKED;
  Result<void> need_room_for_names(std::size_t bytes) const LSMFS_LOCKED;
  Result<void> need_room_to_replace(std::size_t bytes) const LSMFS_LOCKED;
  std::uint64_t uncommitted_room(const Store::Room& room) const LSMFS_LOCKED;  // that rows need which are new and not counted there
  Result<void> sync_changes();  // all that there are
  Result<void> sync_store();
  void close_writers();
  Result<void> stop_changing();
  Result<void> change_again();
  Result<void> sweep_orphans(Lock& lock) LSMFS_LOCKED;
  std::chrono::milliseconds interval() const LSMFS_LOCKED;  // 0: nothing is to be done by itself
  bool sweeps() const LSMFS_LOCKED { return options_.sweeps && can_change(); }  // by itself
  Clock::Time next_upkeep() const LSMFS_LOCKED;
  void look_again_in_time() LSMFS_LOCKED;                   // the background thread, after what has happened
  void background();

  // ---- inodes (inodes.cc)
  Result<Inode*> find(Ino ino) LSMFS_LOCKED;                                              // ESTALE when not in the table
  Result<Inode*> find_directory(Ino ino) LSMFS_LOCKED;                                    // also ENOTDIR; ENOENT when removed
  Result<Inode*> load(const Lock& lock, Inode& dir, std::string_view name) LSMFS_LOCKED;  // nullptr: no such name
  static void know_only_name(Inode& inode, Inode& dir, std::string_view name);
  Result<Inode*> adopt(const Lock& lock, Inode& dir, std::string_view name, std::string_view row) LSMFS_LOCKED;
  void set_flags(Inode& inode, std::uint32_t flags) LSMFS_LOCKED;
  void changed(Inode& inode) LSMFS_LOCKED;                         // its record goes into the open group
  void blocks_changed(Inode& inode) LSMFS_LOCKED;                  // as some of its blocks do
  void set_blocks(Inode& inode, std::uint64_t rows) LSMFS_LOCKED;  // so many there are, in its record and in the tree's state
  // A file's size, or which of its blocks have rows, is about to change so that it may be sparse afterwards.
  void before_holes(Inode& inode) LSMFS_LOCKED;
  void after_holes(Inode& inode) LSMFS_LOCKED;  // or not
  // Which blocks of a sparse file have rows; nullptr: the store has to be looked at.
  static const RowMap* known_rows(const Inode& inode) { return inode.rows && inode.rows->known() ? inode.rows.get() : nullptr; }
  // What the groups make of an entry: an inode, 0 when it goes away, nullopt when they leave it.
  std::optional<Ino> uncommitted_entry(const std::string& key) const LSMFS_LOCKED;
  void entry_changed(Inode& dir, std::string_view name, Ino ino) LSMFS_LOCKED;  // ino 0: it is gone
  void drop_if_unused(Inode* inode) LSMFS_LOCKED;
  void erase_removed(Inode& inode) LSMFS_LOCKED;     // the rows of an inode without name and lookups
  void erase_xattr_rows(Inode& inode) LSMFS_LOCKED;  // and forgets the attributes (xattrs.cc)
  // Drops an inode that was loaded for one operation when that operation ends, unless it is in use. Must hold: the lock, from its beginning
  // to its end.
  class Loaded {
   public:
    Loaded(LsmTree& tree, Inode* inode) : tree_(tree), inode_(inode) {
      if (inode_) ++inode_->lookups;  // it counts as in use meanwhile
    }
    ~Loaded() {
      if (!inode_) return;
      --inode_->lookups;
      tree_.drop_if_unused(inode_);
    }
    Loaded(const Loaded&) = delete;
    Loaded& operator=(const Loaded&) = delete;

   private:
    LsmTree& tree_;
    Inode* inode_;
  };
  Batch& batch() LSMFS_LOCKED { return open_group().batch; }
  static void touch(Record& directory, const Time& now) { directory.mtime = directory.ctime = now; }

  // ---- extended attributes (xattrs.cc)
  Result<std::string> xattr_value(const Lock& lock, const Inode& inode, const Xattr& xattr) LSMFS_LOCKED;
  void put_xattr(Inode& inode, std::string_view name, std::string_view value) LSMFS_LOCKED;
  void drop_xattr(Inode& inode, std::string_view name) LSMFS_LOCKED;
  Result<std::optional<acl::List>> load_acl(const Lock& lock, const Inode& inode, std::string_view name) LSMFS_LOCKED;
  // What a new inode has from its directory and its maker.
  struct Inherited {
    std::uint32_t mode = 0;
    std::string access, defaults;  // access control lists; empty: none
  };
  Result<Inherited> inherit(const Lock& lock, const Inode& dir, const NewInode& what) LSMFS_LOCKED;

  // ---- names (entries.cc)
  Inode new_inode(const Inode& dir, const NewInode& what, const Inherited& inherited, const Time& now) LSMFS_LOCKED;
  void put_inherited(Inode& inode, const Inherited& inherited) LSMFS_LOCKED;  // its access control lists, when it has its home
  static void settle_far_away(Inode& inode);
  Inode& add(Inode& dir, std::string_view name, const NewInode& what, const Inherited& inherited, const Time& now) LSMFS_LOCKED;
  Attr add_unnamed(Inode& dir, std::string_view near, const NewInode& what, const Inherited& inherited) LSMFS_LOCKED;
  void back_to_entry(Inode& inode) LSMFS_LOCKED;
  void let_go_of_directory(Inode& inode) LSMFS_LOCKED;
  static std::optional<std::string> home_left(const Inode& inode, const Inode& dir, std::string_view name);
  void remove_name(Inode& dir, std::string_view name, Inode& inode, const Time& now) LSMFS_LOCKED;
  Result<void> remove(Ino dir, std::string_view name, bool directory, Wait wait);
  static void count(TreeCounts& counts, const Record& record, int change);
  void count(const Record& record, int change) LSMFS_LOCKED { count(state_.counts, record, change); }
  void count_displaced(Inode& inode) LSMFS_LOCKED;  // when its record is put, or it goes

  // ---- rename (rename.cc)
  bool is_within(const Inode& inode, const Inode& ancestor) const LSMFS_LOCKED;
  static constexpr std::uint64_t kMoveBlocksMax = 256 * KiB / kBlockSize;  // rows moved outright with a name
  bool takes_blocks_along(const Inode& inode, const std::string& new_home) const LSMFS_LOCKED;
  // The blocks of a file that are to move with it, if they are: all its rows, or none of a new file of the open group.
  struct Taken {
    bool moves = false;
    Rows::Blocks blocks;
  };
  Taken blocks_in_group(const Inode& inode) LSMFS_LOCKED;
  Result<Taken> blocks_to_move(const Lock& lock, const Inode& inode) LSMFS_LOCKED;
  void move_blocks(Inode& inode, const Taken& blocks, const std::string& new_home) LSMFS_LOCKED;
  void place(Inode& inode, Inode& dir, std::string_view name, const Taken& blocks, const Time& now) LSMFS_LOCKED;

  // ---- removal of trees (remove_tree.cc)
  static constexpr int kLooksMost = 4;  // below a directory, for what is immutable or append-only
  bool is_gone(Inode& inode) LSMFS_LOCKED;
  void give_up(Inode& staged) LSMFS_LOCKED;
  Result<std::shared_ptr<BulkWriter>> bulk_writer_of(Ino staged);
  void abandon_bulk(Ino staged) LSMFS_LOCKED;
  Result<std::optional<std::string>> take_out(Lock& lock, Wait wait, Ino dir, Ino parent, std::optional<std::uint64_t> looked) LSMFS_LOCKED;
  Result<std::uint64_t> look_for_fixed(Ino dir);

  // ---- sweeps (sweep.cc)
  // A directory that was removed with what is in it.
  struct RemovedTree {
    Ino dir;
    std::string after{};    // the last name that was passed; "": none
    bool settled = false;   // its rows show what was made in it before
    bool told = false;      // it shows a base: what is in use of that is known to be gone
  };
  RemovedTree* next_removed_tree() LSMFS_LOCKED;  // nullptr: there is none
  void sweep_shown(const Inode& dir, std::vector<SweptEntry>& held) LSMFS_LOCKED;
  Result<bool> sweep_some(Lock& lock, std::vector<SweptEntry>& held) LSMFS_LOCKED;
  Result<void> take_away(const Lock& lock, Inode& dir, std::string_view name, std::string_view row, std::vector<SweptEntry>& held) LSMFS_LOCKED;
  void leave(const Inode& dir, std::string_view why) LSMFS_LOCKED;
  bool sweep_for_a_while();

  // ---- clones (clones.cc)
  Ino free_number() const LSMFS_LOCKED;
  void renew(Inode& inode) LSMFS_LOCKED;
  void follow(Inode& inode) LSMFS_LOCKED;
  enum class Expands : std::uint8_t { to_grow, to_free };  // what for: whoever removes something may take the room from what is set aside
  Result<void> own_row(const Lock& lock, Inode& inode, Expands what_for = Expands::to_grow) LSMFS_LOCKED;
  Result<void> expand(const Lock& lock, Inode& dir, Expands what_for = Expands::to_grow) LSMFS_LOCKED;
  struct Expanded;
  Result<std::vector<Expanded>> to_expand(const Lock& lock, const Inode& dir, std::string_view after, std::size_t most, Expands what_for) LSMFS_LOCKED;
  void put_expanded(const std::string& home, Expanded& entry) LSMFS_LOCKED;
  void has_own_row(Inode& dir, Inode& inode, Record record) LSMFS_LOCKED;
  void has_own_entries(Inode& dir) LSMFS_LOCKED;
  // The entries of a large directory, which are put beside those that it shows.
  struct Build {
    Ino number;         // of a node at `home`, where they lie
    std::string home;
    std::string base;   // that the directory shows
    std::string after;  // the last name that was put
    std::uint64_t entries = 0;
    std::uint64_t group = 0;  // the last one that has some of them
    bool ended = false;
    Result<void> outcome;
  };
  Result<void> take_over_built(const Lock& lock, Inode& dir, Expands what_for) LSMFS_LOCKED;
  void build(Ino dir, Expands what_for);
  Result<bool> build_some(Lock& lock, Ino ino, Expands what_for) LSMFS_LOCKED;
  void abandon(const Build& build) LSMFS_LOCKED;
  void leave_base(Inode& inode) LSMFS_LOCKED;
  using XattrRows = std::vector<std::pair<std::string, std::string>>;  // names and values
  Result<XattrRows> xattr_rows(const Lock& lock, const Record& record, const std::string& home) LSMFS_LOCKED;
  void move_xattrs(Inode& dir, const XattrRows& xattrs, const std::string& from) LSMFS_LOCKED;
  void freeze(Inode& dir, const XattrRows& xattrs) LSMFS_LOCKED;
  std::string path_of(const Inode& directory) const LSMFS_LOCKED;
  static std::uint64_t drawn_shift();

  // ---- clones of directories with names of files that have several (clone_links.cc)
  struct Linked;
  class Copying;
  using NamesRows = std::vector<std::pair<std::string, std::string>>;
  Result<Linked> look_for_links(const std::string& home) const;
  Result<void> read_linked(Linked& linked, std::uint64_t settled, Wait wait) const;
  Result<NamesRows> entries_at(const std::string& home, Wait wait) const;
  Result<void> read_files(std::vector<std::pair<Ino, std::string>>& files, Wait wait) const;
  Result<void> know_links(const Lock& lock, const Inode& dir, Linked& linked) LSMFS_LOCKED;

  // ---- rollbacks (roll_back.cc)
  struct RollingBack;
  Result<std::optional<std::vector<SweptEntry>>> put_back(Lock& lock, Wait wait, Ino dir_ino, Ino snapshot, RollingBack& known) LSMFS_LOCKED;
  bool somebody_uses_linked() LSMFS_LOCKED;
  Inode& leave_contents(Inode& dir, Ino to, const NamesRows& rows, const Time& now, std::vector<SweptEntry>& gone) LSMFS_LOCKED;
  void leave_children(Inode& dir, Inode& to, bool moves, std::vector<SweptEntry>& gone) LSMFS_LOCKED;
  void move_entry(const std::string& from, Inode& to, std::string_view name, const std::string& row) LSMFS_LOCKED;

  // ---- relocation (relocation.cc)
  struct Moving;
  static bool is_displaced(const Inode& inode);
  void note_displaced(const Inode& inode) LSMFS_LOCKED;
  Result<bool> try_to_relocate(Ino ino, const std::string& home);
  Result<bool> is_small(const std::string& home) const;
  Result<void> collect(Moving& moving) const;
  void move(Inode& inode, const Moving& moving) LSMFS_LOCKED;

  // ---- losses (losses.cc)
  Result<std::uint64_t> count_rows(const Lock& lock, const Inode& inode, BlockIndex from, BlockIndex to) LSMFS_LOCKED;
  Result<void> need_block(const Lock& lock, const Inode& inode, BlockIndex index) LSMFS_LOCKED;
  Result<void> know_written(const Lock& lock, const Inode& inode, std::uint64_t from, std::uint64_t to) LSMFS_LOCKED;
  void know_past_end(const Inode& inode, std::uint64_t to) LSMFS_LOCKED;
  void know_home(const Record& record, const std::string& home) LSMFS_LOCKED;
  class Owned;
  Result<void> know_what_is_nobodys(const Stop& stop);

  // ---- holes (holes.cc)
  // Which rows of a file there were in some of its blocks when somebody looked.
  struct SeenBlocks {
    BlockIndex from, to;              // of the blocks [from, to); none: nobody looked
    std::string home;                 // of the file
    std::uint64_t group = 0;          // the last one that had changed its blocks
    std::uint64_t rows = 0;
    std::vector<std::uint64_t> some;  // the indexes of the first of them; of all, when Rows::kPointEraseMax and two more suffice
    std::uint64_t last = 0;           // the index of the last one, if there are any
    bool has(BlockIndex index) const { return rows > 0 && (some.front() == index.v || last == index.v); }  // the first or the last
  };
  // What `look` finds under a file's home, which it takes with the lock and reads without: what moved the blocks meanwhile
  // left nothing there.
  template <class Look>
  auto with_steady_home(Ino ino, const Look& look) {
    for (;;) {
      const std::uint64_t moves = moves_;
      auto found = look();
      if (moves_ == moves || !moved_since(ino, moves)) return found;
    }
  }
  bool moved_since(Ino ino, std::uint64_t moves);  // true also when it cannot be told without waiting
  SeenBlocks blocks_to_see(const Inode& inode, std::uint64_t from, std::uint64_t to) const LSMFS_LOCKED;
  Result<SeenBlocks> see(const Lock& lock, const Inode& inode, SeenBlocks wanted, Result<SeenBlocks>& seen) LSMFS_LOCKED;
  Result<SeenBlocks> look(SeenBlocks seen) const;
  void erase_seen(SeenBlocks seen, BlockIndex from, BlockIndex to, std::uint64_t rows) LSMFS_LOCKED;
  Result<void> make_hole(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to, Result<SeenBlocks>& seen) LSMFS_LOCKED;

  // ---- blobs, and streams into them (blobs.cc)
  // Blocks [from, to) of a file, where they lie in the end: from block `at` on of a home, the file's or that of a base.
  struct Leaf {
    std::uint64_t from = 0, to = 0;
    Ino number{};          // in that home
    std::uint64_t at = 0;
    std::string home;      // in rows of a base; empty: they lie in a blob
    FileBlobs::Part part;  // the blob, without its bits, as if it were the file's
  };
  // Those of a group, which drops the blobs of which nothing is wanted any more.
  class GroupBlobRows final : public BlobRows {
   public:
    GroupBlobRows(Group& group, Ino number) : BlobRows(group.batch, number), dropped_(group.dropped_blobs) {}
    void erase(std::uint64_t first, std::uint64_t blob) override {
      BlobRows::erase(first, blob);
      if (blob != 0) dropped_.push_back(blob);
    }

   private:
    std::vector<std::uint64_t>& dropped_;
  };
  // A blob for a stream, made without the lock.
  struct MadeBlob {
    std::uint64_t number = 0;
    std::optional<Result<std::unique_ptr<BlobWriter>>> writer;
    bool taken = false;
  };
  Result<FileBlobs> parts_of(const Lock& lock, Ino number) LSMFS_LOCKED;
  Result<LargeFile*> large_file(const Lock& lock, Inode& inode) LSMFS_LOCKED;
  Result<std::uint64_t> settled_in_blobs(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to) LSMFS_LOCKED;
  std::uint64_t leave_blobs(Group& group, Inode& inode, std::uint64_t from, std::uint64_t to) LSMFS_LOCKED;
  Result<void> make_rows(const Lock& lock, Inode& inode, std::uint64_t from, std::uint64_t to) LSMFS_LOCKED;
  Result<void> apply_patches(const Lock& lock, const Inode& inode, const Leaf& leaf, std::string& bytes) LSMFS_LOCKED;
  bool may_patch(const Inode& inode, std::uint64_t block, std::uint64_t bytes) const LSMFS_LOCKED;
  void patch_in_blob(Inode& inode, std::uint64_t block, std::size_t at, std::string_view bytes) LSMFS_LOCKED;
  static void put_rows(Group& group, const std::string& home, std::uint64_t first, std::string_view bytes);
  bool may_waste(std::uint64_t blocks) const LSMFS_LOCKED;
  Result<void> dissolve(Ino ino, std::uint64_t blob);
  std::uint64_t blob_most() const;
  Result<Stream*> stream_for(const Lock& lock, Wait wait, Inode& inode, std::uint64_t offset, std::uint64_t end, MadeBlob& made) LSMFS_LOCKED;
  void stream_blocks(Inode& inode, std::uint64_t first, std::string_view bytes) LSMFS_LOCKED;
  void end_stream(Inode& inode) LSMFS_LOCKED;
  void end_streams() LSMFS_LOCKED;
  void end_idle_streams() LSMFS_LOCKED;
  void unstream(Group& group, Inode& inode, const Streamed& streamed) LSMFS_LOCKED;
  void seal_streams(Group& group) LSMFS_LOCKED;
  void streams_settled(const Group& group) LSMFS_LOCKED;
  void discard_streamed(Inode& inode) LSMFS_LOCKED;
  Result<void> sweep_blobs() LSMFS_LOCKED;
  void drop_blob(std::uint64_t blob);
  Result<ScrubStep> scrub_blobs(ScrubPosition& position, const Stop& stop);
  ByteCount bytes_in_blobs() const;
  // Also of a group that is being committed just now, and by another thread.
  bool drops_blobs() const LSMFS_LOCKED {
    const Group* const sealed = history_.sealed();
    return !dropped_blobs_.empty() || !open_group().dropped_blobs.empty() || (sealed && !sealed->dropped_blobs.empty()) || dropping_ > 0;
  }

  // ---- shares (shares.cc, bases.cc)
  struct Copy {
    Ino from;
    std::uint64_t at;
    Ino to;
    std::uint64_t to_at, length;
  };
  struct Span {
    Ino number;                     // of a home
    std::uint64_t from, to, shift;  // blocks in it, and how much further they are in it than in the file
    int depth;
  };
  // A shared file of so many blocks at most is copied as a whole when some of it is written, so that it lies in one place.
  std::uint64_t copied_whole() const LSMFS_LOCKED { return 4 * options_.share_past.v / kBlockSize; }
  Result<std::shared_ptr<const FileBlobs>> base_parts(const Lock& lock, const std::string& home) LSMFS_LOCKED;
  Result<int> depth_of(const Lock& lock, const FileBlobs& parts, std::uint64_t from, std::uint64_t to, int above) LSMFS_LOCKED;
  Result<std::vector<Leaf>> leaves_of(const Lock& lock, const Inode& inode, std::uint64_t from, std::uint64_t to) LSMFS_LOCKED;
  Result<void> add_leaves(const Lock& lock, const FileBlobs& parts, const std::string& rows, const Span& span, std::vector<Leaf>& leaves) LSMFS_LOCKED;
  Result<void> read_leaf(const Lock& lock, const Leaf& leaf, Rows::Blocks& to) LSMFS_LOCKED;
  Result<ByteCount> copy_at_once(const Copy& copy);
  Result<std::optional<std::uint64_t>> copy_bytes(const Copy& copy, std::uint64_t most, Wait wait);
  Result<std::optional<std::uint64_t>> share(Lock& lock, Wait wait, const Copy& copy, Result<SeenBlocks>& seen) LSMFS_LOCKED;
  Result<std::vector<FileBlobs::Part>> parts_to_share(const Lock& lock, Inode& source, std::uint64_t first, std::uint64_t to_first,
                                                      std::uint64_t count) LSMFS_LOCKED;
  static std::vector<FileBlobs::Part> shared_parts(const std::string& base, std::uint64_t from, std::uint64_t first, const std::vector<bool>& has);
  Result<std::vector<bool>> which_blocks(const Lock& lock, Inode& inode, std::uint64_t first, std::uint64_t count) LSMFS_LOCKED;
  static std::vector<FileBlobs::Part> shared_parts(const std::string& base, const Fetched::Runs& runs);
  Result<Fetched::Runs> runs_of(const Lock& lock, Inode& inode) LSMFS_LOCKED;
  void add_parts(Inode& inode, std::vector<FileBlobs::Part> parts) LSMFS_LOCKED;
  Result<void> unshare(const Lock& lock, Inode& inode) LSMFS_LOCKED;
  Result<std::optional<Rows::Blocks>> copied_blocks(const Lock& lock, const Inode& inode) LSMFS_LOCKED;
  void begin_anew(Inode& inode, const std::optional<Rows::Blocks>& rows, std::vector<FileBlobs::Part> parts) LSMFS_LOCKED;
  Result<std::vector<FileBlobs::Part>> parts_of_all(const Lock& lock, Inode& inode) LSMFS_LOCKED;
  Result<void> part_from_base(const Lock& lock, Inode& inode) LSMFS_LOCKED;
  Result<void> add_lowest(const Lock& lock, const FileBlobs& blobs, const std::string& home, const Span& span,
                          std::vector<FileBlobs::Part>& parts) LSMFS_LOCKED;
  void leave_to_users(Inode& inode) LSMFS_LOCKED;
  void leave_bases(Group& group, Inode& inode, const std::vector<std::string>& bases) LSMFS_LOCKED;
  void note_unused(Ino base, std::uint64_t group) LSMFS_LOCKED;
  Result<bool> drop_unused();
  Result<bool> drop_base(const Lock& lock, Ino number) LSMFS_LOCKED;
  Result<void> drop_data(const Lock& lock, Ino number, const Node& node) LSMFS_LOCKED;
  Result<bool> drop_entries(const Lock& lock, Ino number, const std::string& home) LSMFS_LOCKED;
  Result<void> drop_entry(const Lock& lock, const std::string& home, std::string_view name, const Record& record) LSMFS_LOCKED;
  Result<bool> trim_some();
  Result<std::optional<std::uint64_t>> trim_base(const Lock& lock, Ino number, std::uint64_t at) LSMFS_LOCKED;
  std::uint64_t trim_parts(Ino number, FileBlobs& parts, const BlockRuns& hidden) LSMFS_LOCKED;
  bool has_bases_to_look_at() const LSMFS_LOCKED { return !unused_bases_.empty() || !trims_.empty(); }
  Result<void> find_unused() LSMFS_LOCKED;
  Result<Inode> directory_of_snapshots(const Record& root);
  Result<SnapshotSizes> sizes_of(Ino ino, const Stop& stop) LSMFS_REQUIRES(sizing_);
  Result<DifferencesStep> differences_of(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) LSMFS_REQUIRES(comparing_);

  // ---- the log of changes (changes.cc)
  struct ToldPath {
    bool nowhere = false;  // it has been removed, or something above it
    std::string path;      // from the root on, without a slash at either end
  };
  std::optional<ToldPath> told_path(const Inode& directory) const LSMFS_LOCKED;
  static std::string shortened(const std::string& path);
  void tell(Inode& inode) LSMFS_LOCKED;
  void tell_name(const Inode& dir, std::string_view name) LSMFS_LOCKED;
  void tell_below(const Inode& dir, std::string_view name) LSMFS_LOCKED;
  void put_changes(Group& group) LSMFS_LOCKED;

  // ---- directories (directory_walk.cc)
  struct Listing;
  void want_names(const Lock& lock, const Fetched::Range& range, AttrsOf attrs) LSMFS_LOCKED;
  Result<void> list(Listing& listing) LSMFS_LOCKED;

  // ---- data (file_data.cc)
  Result<void> resize(const Lock& lock, Inode& inode, std::uint64_t size, Result<SeenBlocks>& seen) LSMFS_LOCKED;
  Result<void> write(Lock& lock, Wait wait, Ino ino, ByteOffset offset, Bytes data, ChangeTime time, MadeBlob& made,
                     std::uint64_t& full_of_waste) LSMFS_LOCKED;
  Result<std::size_t> try_to_read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime);
  // What lies in a blob.
  struct InBlob {
    Leaf leaf;
    std::unique_ptr<Cursor> patches;  // of its blocks, if there are some
  };
  static Result<void> read_patches(Ino ino, const InBlob& run, std::uint64_t offset, MutableBytes bytes);
  bool note_file(const Inode& inode, Wait wait) LSMFS_LOCKED;
  Result<void> read_blobs(const std::vector<InBlob>& runs, std::uint64_t offset, MutableBytes bytes);
  Result<void> read_run(const FileBlobs::Part& part, std::uint64_t from, std::uint64_t to, std::uint64_t offset, MutableBytes bytes);
  void note_access_time(Inode& inode) LSMFS_LOCKED;

  Store& store_;
  Clock& clock_;
  Mutex reconfiguring_;           // outermost: held while a change of settings waits for the device
  Mutex sizing_;                  // outermost: held while the sizes of a snapshot are looked for
  ReferredBytes::Known referred_ LSMFS_GUARDED_BY(sizing_);  // of bases, which do not change
  Mutex comparing_;               // likewise: while directories are compared

  const bool opened_read_only_;
  const std::function<void(std::string_view)> notice_;

  mutable Mutex mutex_;
  TreeOptions options_ LSMFS_GUARDED_BY(tree_mutex);               // those that a remount can change, do
  DirCookies::Memory cookie_memory_ LSMFS_GUARDED_BY(tree_mutex);  // of the directories in the table
  RowMap::Memory row_memory_ LSMFS_GUARDED_BY(tree_mutex);         // of the files in it
  InodeTable inodes_ LSMFS_GUARDED_BY(tree_mutex);
  // The name that was last found to be absent, until the next commit: a create follows the lookup
  // that finds no such name, and need not look again.
  struct {
    Ino dir;
    std::string name;
  } absent_ LSMFS_GUARDED_BY(tree_mutex);
  const std::uint64_t cookie_seed_;    // of this mount's readdir cookies
  State state_ LSMFS_GUARDED_BY(tree_mutex);
  ChangeLog changes_ LSMFS_GUARDED_BY(tree_mutex);

  bool alone_ LSMFS_GUARDED_BY(tree_mutex) = false;  // somebody is
  std::condition_variable no_longer_alone_;
  std::atomic<std::uint64_t> moves_{0};                         // how many times a file's blocks got another home
  std::deque<Ino> displaced_ LSMFS_GUARDED_BY(tree_mutex);      // some of those that lie elsewhere than their path says
  std::unordered_set<Ino> large_ LSMFS_GUARDED_BY(tree_mutex);  // some that have too much below them to be moved, lest it be looked at again
  std::uint64_t removals_ LSMFS_GUARDED_BY(tree_mutex) = 0;       // of trees, in this mount
  std::map<Ino, Build> builds_ LSMFS_GUARDED_BY(tree_mutex);      // by directory
  std::uint64_t layouts_ LSMFS_GUARDED_BY(tree_mutex) = 0;        // how many times a directory had its entries elsewhere, or those that it shows
  std::uint64_t copied_group_ LSMFS_GUARDED_BY(tree_mutex) = 0;   // the last one that has rows of inodes that are not in the table, or that they are used
  // How many times there may have come below some directory what walks look for: what is immutable or append-only, or a name of a file of several.
  std::uint64_t below_changes_ LSMFS_GUARDED_BY(tree_mutex) = 0;
  std::deque<RemovedTree> removed_trees_ LSMFS_GUARDED_BY(tree_mutex);  // the last one is swept first
  Mutex swept_mutex_;  // not while the other is held
  std::function<void(std::vector<SweptEntry>)> on_swept_ LSMFS_GUARDED_BY(swept_mutex_);
  // Of staged directories, into which much is written. nullptr: that is over, or there was none to be had.
  std::map<Ino, std::shared_ptr<BulkWriter>> bulk_writers_ LSMFS_GUARDED_BY(tree_mutex);
  std::vector<std::shared_ptr<BulkWriter>> ended_bulk_ LSMFS_GUARDED_BY(tree_mutex);  // to be closed without the lock
  Upkeep upkeep_ LSMFS_GUARDED_BY(tree_mutex);
  Clock::Time looks_again_ LSMFS_GUARDED_BY(tree_mutex){};  // when the background thread does so by itself
  bool stop_ LSMFS_GUARDED_BY(tree_mutex) = false;
  bool closed_ LSMFS_GUARDED_BY(tree_mutex) = false;
  std::condition_variable wake_;

  Streaks streaks_ LSMFS_GUARDED_BY(tree_mutex);
  std::unordered_set<Ino> streaming_ LSMFS_GUARDED_BY(tree_mutex);         // files that are streams
  GiveWay give_way_ LSMFS_GUARDED_BY(tree_mutex);                          // to others
  std::size_t dropping_ LSMFS_GUARDED_BY(tree_mutex) = 0;  // of those, that a thread is about to remove
  std::vector<std::uint64_t> dropped_blobs_ LSMFS_GUARDED_BY(tree_mutex);  // that no row names any more, which is durable with the next sync
  std::vector<std::shared_ptr<BlobWriter>> ended_writers_ LSMFS_GUARDED_BY(tree_mutex);  // to be closed without the lock
  BlobReaders blob_readers_{store_};

  std::unordered_map<Ino, std::shared_ptr<const FileBlobs>> base_parts_ LSMFS_GUARDED_BY(tree_mutex);  // of some bases, by number
  std::map<Ino, std::uint64_t> unused_bases_ LSMFS_GUARDED_BY(tree_mutex);  // that have lost something of a user, or their file, with the last such group
  std::map<Ino, std::string> drops_ LSMFS_GUARDED_BY(tree_mutex);  // directories of those that are being dropped, and up to which name
  std::map<Ino, std::uint64_t> trims_ LSMFS_GUARDED_BY(tree_mutex);  // those that are used, and up to which block what nobody sees was taken out

  // Files that have lost their last name and have rows until the kernel forgets them. It does so at once unless they are open, but
  // a later request may overtake that.
  struct {
    std::unordered_set<Ino> files;
    Clock::Time last = Clock::Time::min();  // when one came
    std::uint64_t gone = 0;                 // so many have been forgotten
    std::condition_variable changed;
  } leaving_ LSMFS_GUARDED_BY(tree_mutex);

  History history_;
  Rows rows_;
  std::thread background_;
};

template <class Operation>
std::invoke_result_t<Operation&, LsmTree::Lock&> LsmTree::attempt(Wait wait, Operation&& operation, Turns turns) {
  Lock lock(mutex_, std::defer_lock);
  if (!lock.lock(wait)) return make_error(EAGAIN, "");
  std::optional<Alone> alone;
  int commits = 0, reads = 0;
  for (;;) {
    auto result = operation(lock);
    if (wait == Wait::no || result || result.error().code != EAGAIN) return result;
    const Lock::Wanted wanted = lock.take_wanted();
    if (wanted.group == 0 && !wanted.read) return result;
    ++(wanted.group > 0 ? commits : reads);
    if (!alone && (commits >= static_cast<int>(turns) || reads >= kReadsMost)) alone.emplace(*this, lock);
    if (wanted.group > 0) {
      await_commit(lock, wanted.group);
    } else {
      lock.fetched().as_of(history_.committed());
      lock.without(wanted.read);
    }
  }
}

}  // namespace lsmfs
