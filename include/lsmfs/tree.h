// tree: the file system itself, as operations on inodes over a key-value store.
//
// It owns the key grammar, the inode record, directories, file blocks, rename, links and orphans
// (docs/format.md, docs/design/). What it is not: it knows no FUSE type, checks no permissions
// (the kernel does, by default_permissions), and keeps no page cache.
//
// Promises
//   1. Each operation is atomic, and operations become durable in the order in which they returned:
//      after a crash the tree is what it was between two of them.
//   2. With Wait::no an operation answers from memory or fails with EAGAIN having changed nothing.
//   3. Inode numbers are never 0, never reused; the root's is kRootIno.
//   4. An inode stays usable by its number while its lookup count is over 0, also when it has no
//      name any more; forget() lowers the count. What has neither name nor lookups is erased.
//
// Errors are errno values as ext4 would give them, EPERM for what an inode's flags forbid. Threads: all of Tree, from any thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/clock.h"
#include "lsmfs/changes.h"
#include "lsmfs/differences.h"
#include "lsmfs/kv.h"

namespace lsmfs {

inline constexpr Ino kRootIno{1};
inline constexpr Ino kInoMax{std::uint64_t{1} << 53};      // none is as high: programs keep numbers in doubles
inline constexpr Ino kCountedMax{std::uint64_t{1} << 40};  // nor is one that is counted up; those above are of what clones show
// The directory of all snapshots: a name of the root that no listing shows, which is always there. Its number is never given to another.
inline constexpr std::string_view kSnapshotsName = ".snapshots";
inline constexpr Ino kSnapshotsIno{kCountedMax.v - 1};
inline constexpr std::size_t kNameMax = 255;                      // bytes
inline constexpr std::size_t kSymlinkMax = 4095;                  // bytes
inline constexpr std::uint64_t kFileSizeMax = std::uint64_t{1} << 60;  // bytes
inline constexpr std::uint32_t kLinkMax = 65000;                  // as ext4
inline constexpr std::size_t kXattrNameMax = 255;                 // bytes
inline constexpr std::size_t kXattrSizeMax = 64 * KiB;            // bytes of a value, as the kernel's limit
inline constexpr std::size_t kXattrListMax = 64 * KiB;            // bytes of all names of an inode, each with a 0
inline constexpr std::uint32_t kBlockSize = 4096;                 // bytes of file data in a row

// FS_*_FL of linux/fs.h, as chattr(1) sets them: i (immutable), a (append only), d (no dump), A (no access time).
inline constexpr std::uint32_t kInodeFlags = 0x10 | 0x20 | 0x40 | 0x80;

struct Time {
  std::int64_t seconds = 0;   // since 1970, may be negative
  std::uint32_t nanoseconds = 0;  // below 10^9
  static Time now(Clock& clock = system_clock());  // the time of day
  friend auto operator<=>(const Time&, const Time&) = default;
};

struct Attr {
  Ino ino;
  std::uint32_t mode = 0;  // type and permission bits, as st_mode
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0, gid = 0;
  std::uint64_t rdev = 0;
  std::uint64_t size = 0;     // bytes
  std::uint64_t blocks = 0;   // 512-byte units with data, as st_blocks
  std::uint32_t flags = 0;    // of chattr(1), of kInodeFlags
  Time atime, mtime, ctime, btime;
};

// What to change; what is not set stays. ctime becomes now unless set.
struct AttrChange {
  std::optional<std::uint32_t> mode;  // permission bits only
  std::optional<std::uint32_t> uid, gid;
  std::optional<std::uint64_t> size;
  std::optional<Time> atime, mtime, ctime;
  bool touches = false;               // atime and mtime are both set, to now
  bool settles = false;               // the times are those of changes that were allowed when they were made
  std::optional<std::uint32_t> flags;  // of kInodeFlags; EOPNOTSUPP
};

struct NewInode {
  std::uint32_t mode = 0;   // type and permission bits, the umask not applied
  std::uint32_t umask = 0;  // counts unless it inherits access control lists
  bool inherits_acl = true;  // if the directory has a default access control list
  std::uint32_t uid = 0, gid = 0;  // gid and S_ISGID of a set-group-id directory are applied by the tree
  std::uint64_t rdev = 0;          // character and block devices
  std::string_view symlink;        // symbolic links: the target, 1 to kSymlinkMax bytes
};

struct Owner {
  std::uint32_t uid = 0, gid = 0;
};

// Of which entries a listing brings the attributes.
enum class AttrsOf : std::uint8_t { none, directories, all };

// A name in a directory, as readdir gives it.
struct DirEntry {
  std::string_view name;
  Attr attr;                      // unless it is whole, only its ino and the type bits of its mode are set
  std::uint64_t next_cookie = 0;  // where to go on after this entry
  bool whole = false;             // `attr` was asked for: who accepts the entry holds on to the inode
  bool held = false;              // whole: somebody held on to it before
};

struct SpaceInfo {
  ByteCount total, free;
  std::uint64_t files = 0;       // inodes in use
  std::uint64_t files_free = 0;  // an estimate by the free space
};

struct TreeCounts {  // inodes that have a name
  std::uint64_t regular = 0, directories = 0, symlinks = 0, others = 0;
  std::uint64_t displaced = 0;  // of these: whose rows lie elsewhere than their only name says, as after some renames
  std::uint64_t fixed = 0;      // of these: immutable or append-only
  TreeCounts& operator+=(const TreeCounts& more) {
    regular += more.regular, directories += more.directories, symlinks += more.symlinks, others += more.others;
    displaced += more.displaced, fixed += more.fixed;
    return *this;
  }
};

// Whether a read counts as access: O_NOATIME says that it does not.
enum class AccessTime : std::uint8_t { now, stays };

// Whether a write counts as a change now: who keeps times himself tells them with setattr(), before or after.
enum class ChangeTime : std::uint8_t { now, stays };

enum class AtimePolicy : std::uint8_t { relatime, noatime, strictatime };

struct TreeOptions {
  bool read_only = false;
  AtimePolicy atime = AtimePolicy::relatime;
  bool directory_atime = true;  // false: reading a directory never updates its access time
  // Calls sync() this often while there is something to sync; 0: never by itself, nor relocate().
  std::uint32_t sync_interval_ms = 5000;
  bool sweeps = false;  // calls sweep() by itself while there is something to sweep
  Clock* clock = &system_clock();  // for what runs by time, and for the times of files
  ByteCount stream_from{4 * MiB};  // a file that is written in order goes into blobs past so many bytes; less, for tests
  // Past so many bytes a copy within the tree is shared (Tree::copy_range). Less is copied: a share costs three rows, and who reads the copy
  // finds its data beside that of its other files. Less, for tests.
  ByteCount share_past{64 * KiB};
  // So many entries that a clone shows get rows in one batch when something changes among them; more of them in steps. Less, for tests.
  std::uint64_t expand_at_once = 4096;
  std::function<void(std::string_view)> notice = [](std::string_view) {};
};

// What can be changed while the tree is in use; what is not set stays.
struct TreeSettings {
  std::optional<bool> read_only;
  std::optional<AtimePolicy> atime;
  std::optional<bool> directory_atime;
  std::optional<std::uint32_t> sync_interval_ms;
};

// What a tree holds in memory now.
struct TreeActivity {
  std::uint64_t uncommitted_bytes = 0;             // of operations that the store does not have yet
  std::uint64_t inodes = 0, inode_bytes = 0;       // that the kernel holds on to, or somebody else; their memory is an estimate
  std::uint64_t removed_trees = 0;                 // directories that sweep() has still to empty, as far as it knows them
};

// An entry that sweep() has taken away, of an inode that somebody holds on to.
struct SweptEntry {
  Ino dir;
  std::string name;
  Ino ino;
};

// What is known of a snapshot beside its attributes.
struct SnapshotInfo {
  Time made;
  std::string of;  // the path of its source at that time, in the tree: "/" is the root
};

// How much a snapshot has: data as files have them, before compression, in whole blocks as Attr::blocks counts them.
struct SnapshotSizes {
  ByteCount alone;   // that would come back if only this one were removed
  ByteCount refers;  // of all files in it, one of several names once
};

class Tree {
 public:
  // Writes the root directory (mode 0755, owner 0) into an empty store.
  static Result<void> format(Store& store);
  // Opens the tree and erases what a crash left of removed files that were open. `store` must outlive it.
  // Errors: EUCLEAN (no root, damaged state), EIO.
  static Result<std::unique_ptr<Tree>> open(Store& store, const TreeOptions& options);
  virtual ~Tree() = default;
  // Writes everything, erases what is orphaned, stops the tree's threads. Then only the destructor.
  virtual Result<void> close() = 0;

  // ---- inodes. Functions that give an Attr of a named inode to a caller who will hold on to it
  // (lookup, make, make_unnamed, link, readdir) raise its lookup count by one.
  virtual Result<std::optional<Attr>> lookup(Ino dir, std::string_view name, Wait wait) = 0;  // nullopt: no such name
  virtual void forget(Ino ino, std::uint64_t lookups) = 0;
  // When inodes in use take more memory than is theirs: some of them, those that were used the longest time ago, for the caller
  // to forget where it has no use for them; enough for it not to have to ask again soon. None is given again until it was
  // used, or all others have been given. Costs next to nothing while there is room, and waits for nothing.
  virtual std::vector<Ino> surplus() = 0;
  virtual Result<Attr> getattr(Ino ino, Wait wait) = 0;
  // The directory in which it was last found, which may be gone. The root's is the root.
  virtual Result<Ino> directory_of(Ino ino, Wait wait) = 0;
  virtual Result<Attr> setattr(Ino ino, const AttrChange& change, Wait wait) = 0;
  virtual Result<std::string> readlink(Ino ino, Wait wait) = 0;

  // ---- names. ENOENT when the directory has been removed, ENAMETOOLONG, EEXIST, ENOTDIR, ...
  // make: any kind by the type bits of mode: file, directory, symlink, device, fifo, socket.
  virtual Result<Attr> make(Ino dir, std::string_view name, const NewInode& inode, Wait wait) = 0;
  // A file without a name (O_TMPFILE) that lies near those of `dir`; link() may give it one while it is in use.
  virtual Result<Attr> make_unnamed(Ino dir, const NewInode& inode, Wait wait) = 0;
  // Also gives a directory that stage() has made its name, as of which all in it is there.
  virtual Result<Attr> link(Ino ino, Ino dir, std::string_view name, Wait wait) = 0;
  // A directory without a name, in which things can be made, and which lies where `name` in `dir` would have it; link() may give it one while
  // it is in use. If that does not come, or after a crash, it goes with all that lies below it as by remove_tree().
  virtual Result<Attr> stage(Ino dir, std::string_view name, const NewInode& inode, Wait wait) = 0;
  // Data of a file below such a directory: whole blocks past all that it has, or what it ends with. It can be read only once settle_staged()
  // has returned; before that nothing below is removed or renamed, and link() gives EBUSY. After it this is a write like others. Both wait.
  // EINVAL: it is not so. ENOENT: the directory has been given up. Else as write().
  virtual Result<void> write_staged(Ino staged, Ino ino, ByteOffset offset, Bytes data) = 0;
  virtual Result<void> settle_staged(Ino staged) = 0;
  virtual Result<void> unlink(Ino dir, std::string_view name, Wait wait) = 0;  // EISDIR
  virtual Result<void> rmdir(Ino dir, std::string_view name, Wait wait) = 0;   // ENOTDIR, ENOTEMPTY
  // flags: 0, RENAME_EXCHANGE, or any of RENAME_NOREPLACE and RENAME_WHITEOUT, of rename(2); else EINVAL.
  // A whiteout is a character device 0:0 of mode 0, made by `whiteout_owner`.
  virtual Result<void> rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to,
                              unsigned flags, Wait wait, Owner whiteout_owner = {}) = 0;

  // Takes the directory `dir`, which is in `parent`, away with all that lies below it, at once however much that is. Gives the name that it
  // had. From then on it is as after the removal of everything below, entry by entry: nothing is found or made in any of these directories,
  // and what somebody holds on to stays usable. Only link counts below, the counts of space and inodes, and the rows follow later, by
  // sweep(). After a crash it is there as a whole, or goes on to be swept.
  // ENOTDIR, ENOENT (it is removed), EBUSY (the root), ESTALE (it is in another directory by now), EPERM (it or `parent` is immutable or
  // append-only, or something below is: where the file system has anything of that kind, all that lies below is looked at before),
  // EAGAIN (others go on to change which inodes below are, so that it cannot be told).
  virtual Result<std::string> remove_tree(Ino dir, Ino parent, Wait wait) = 0;
  // Makes `name` in the directory `to` a copy of the directory `dir` with all that lies below it, as it is now, at once however much that is.
  // What the two have in common is stored once, until one of them changes it. All but inode numbers is as it was; names below it of one file
  // stay names of one file, which has no name elsewhere. ENOTDIR, ENOENT (one is removed), EEXIST, EINVAL (`to` is `dir`, or lies below it),
  // ENAMETOOLONG, ENOSPC, EPERM (`to` is immutable).
  // Where `to` is the directory of snapshots, it makes a snapshot: nothing in it changes any more (EROFS). Nothing else comes there, and a
  // snapshot does not leave it, other than by remove_tree(). No clone has it, so the root may be the source.
  virtual Result<void> clone(Ino dir, Ino to, std::string_view name, Wait wait) = 0;
  // EINVAL: the inode is not a snapshot as a whole.
  virtual Result<SnapshotInfo> snapshot_info(Ino ino, Wait wait) = 0;
  // As of all that was done before; what has been removed, and has not gone yet, counts as there. Reads the names of what is in the snapshot,
  // of what nobody else has each time. Waits for the device, and holds up nobody. EINVAL as above; ENOENT (it is removed); EBUSY (others ask
  // for the sizes of one: ask again); EINTR (stopped); EUCLEAN.
  virtual Result<SnapshotSizes> snapshot_sizes(Ino ino, const Stop& stop) = 0;
  // A step of telling what the directories `a` and `b` have below them that is not the same, as of all that was done before. Reads the names of
  // what is not, and data of none. Waits for the device, and holds up nobody. ENOTDIR, ESTALE (one is removed), ENOENT (nothing lies at a path that is
  // asked of), EINVAL (that is no path), ENAMETOOLONG (a path is too long to be told, which is the context), EBUSY (others compare just now: ask again), EINTR (stopped),
  // EUCLEAN.
  virtual Result<DifferencesStep> differences(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) = 0;
  // A step of telling which paths below the directory `dir` may have changed since a moment, as of all that was done before. The first question
  // has the tree keep a log of changes from then on, until nobody has asked for a month. Waits for the device, and holds up nobody.
  // ENOTDIR, ESTALE (it is removed), EROFS (no log is kept, and none can be), EINTR (stopped).
  virtual Result<ChangesStep> changes(Ino dir, const ChangesAsked& asked, const Stop& stop) = 0;
  // Gives the directory `dir` what the snapshot `snapshot` has, at once however much that is: all that lies below it, and its mode, owner,
  // times of access and of change, flags and attributes. It keeps its number, its name and its place. What lay below it is gone as by
  // remove_tree(), and what somebody holds on to there stays usable. The snapshot stays. Gives the entries that `dir` had, as far as somebody
  // holds on to what they were. ENOTDIR, ENOENT (one is removed), EINVAL (`snapshot` is not one as a whole), EROFS (`dir` lies in a snapshot,
  // or is their directory), EPERM and EAGAIN as of remove_tree(), ENOSPC.
  virtual Result<std::vector<SweptEntry>> roll_back(Ino dir, Ino snapshot, Wait wait) = 0;
  // Whether somebody holds on to what was found by this name, where it is the only one that this has. Waits for nothing but others.
  virtual bool in_use(Ino dir, std::string_view name) = 0;

  // Takes away some of what lies below directories that remove_tree() has taken away, also before the last mount; false: nothing is left
  // that can be. Many files are many calls, and others get their turn between them.
  virtual Result<bool> sweep() = 0;
  // `told` hears of entries that sweep() takes away, with no lock held, but from within it. The last one counts; {}: nobody. When this
  // returns no other one is called any more.
  virtual void on_swept(std::function<void(std::vector<SweptEntry>)> told) = 0;

  // Calls `visit` for each entry from `cookie` on (0: the start), names in ascending byte order
  // with "." and ".." first, until it returns false: that entry is not counted as given.
  // The lookup count of each accepted entry that is whole is raised. "." and ".." never are.
  // An entry that exists throughout a walk is given exactly once, whatever else changes. A call may
  // end early, also for want of memory with Wait::no, when it has given at least one entry. A walk may
  // end with one more entry "." whose inode number is 0, which stands for nothing.
  using DirVisitor = std::function<bool(const DirEntry&)>;
  virtual Result<void> readdir(Ino dir, std::uint64_t cookie, AttrsOf attrs, const DirVisitor& visit, Wait wait,
                               AccessTime atime = AccessTime::now) = 0;

  // ---- data
  // Fills `to` from `offset`; gives the number of bytes, less than asked only at the end of file.
  virtual Result<std::size_t> read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait,
                                   AccessTime atime = AccessTime::now) = 0;
  // All of data or nothing. EFBIG, ENOSPC.
  virtual Result<void> write(Ino ino, ByteOffset offset, Bytes data, Wait wait, ChangeTime time = ChangeTime::now) = 0;

  // Makes bytes of a file those of another one, or of other bytes of its own. Gives how many, which may be less than asked: whoever wants
  // more asks again. 0: the source has none there. Whole blocks are shared where both files have them at multiples of kBlockSize, past
  // TreeOptions::share_past; what is not shared is copied, little of it without waiting. EISDIR, EINVAL, EFBIG, ENOSPC.
  virtual Result<ByteCount> copy_range(Ino from, ByteOffset at, Ino to, ByteOffset to_at, ByteCount length, Wait wait) = 0;

  // mode: 0 or FALLOC_FL_KEEP_SIZE, which set nothing aside but refuse (ENOSPC) what has no room now;
  // FALLOC_FL_PUNCH_HOLE | KEEP_SIZE; FALLOC_FL_ZERO_RANGE with or without KEEP_SIZE. EOPNOTSUPP, EFBIG.
  virtual Result<void> fallocate(Ino ino, int mode, ByteOffset offset, ByteCount length, Wait wait) = 0;
  // whence: SEEK_DATA or SEEK_HOLE of lseek(2), in blocks of kBlockSize. ENXIO: past the end, or no more data.
  virtual Result<ByteOffset> seek(Ino ino, ByteOffset offset, int whence, Wait wait) = 0;

  // ---- extended attributes, by their full names ("user.x"), whatever the namespace. ENODATA when there
  // is none of that name; ERANGE: the name is too long.
  virtual Result<std::string> getxattr(Ino ino, std::string_view name, Wait wait) = 0;
  // flags: 0, XATTR_CREATE (EEXIST) or XATTR_REPLACE (ENODATA). E2BIG, ENOSPC (also: too many names).
  // POSIX access control lists are "system.posix_acl_access", which changes the mode, and "system.posix_acl_default",
  // both in the form of linux/posix_acl_xattr.h: EINVAL; EACCES: a default list of what is no directory.
  virtual Result<void> setxattr(Ino ino, std::string_view name, std::string_view value, int flags, Wait wait) = 0;
  // An access control list that is not there is removed without an error.
  virtual Result<void> removexattr(Ino ino, std::string_view name, Wait wait) = 0;
  virtual Result<std::string> listxattr(Ino ino, Wait wait) = 0;  // the names, sorted, each followed by a 0

  // All operations that returned before are durable. Waits for the device.
  virtual Result<void> sync() = 0;

  // A rename leaves what lies below a directory, and the data of larger files, where they are on the device. Moves one such
  // part, if it is small, to where its path says; false: none is known. Before, it frees some of what files have shared and nobody sees any
  // more, if there is any. Nobody but the device sees a difference. The tree
  // calls this by itself unless sync_interval_ms is 0. Waits for the device.
  virtual Result<bool> relocate() = 0;

  // sync(), and then forgets what it keeps of the store in memory and what the store keeps of the device, so that a
  // walk reads the device as after mounting. Inodes in use stay.
  virtual Result<void> drop_caches() = 0;

  // Discards free space of the device; gives the bytes discarded. What was erased takes space until
  // the tables it lies in have been rewritten, which happens by itself. EROFS, and as Volume::trim().
  virtual Result<ByteCount> trim(const TrimRange& range, const Stop& stop) = 0;

  // Verifies a part of all that is on the device, as Store::scrub(): from a position {} on until it is done. `notice` hears of
  // damage, too.
  virtual Result<ScrubStep> scrub(ScrubPosition& position, const Stop& stop) = 0;

  // read_only: all operations that returned before are durable, every other change fails with EROFS, access times
  // stay as they are, and the volume is not written any more. Inodes that lose their last use in that time are
  // erased later. Not read_only: EROFS when it was opened so, EIO when it became so by an error. Waits for the device.
  virtual Result<void> reconfigure(const TreeSettings& settings) = 0;
  virtual bool read_only() const = 0;

  // As of all that was done before.
  virtual Result<SpaceInfo> space(Wait wait) = 0;
  // After ENOSPC: whether to try again, since files that were removed a moment ago had not been forgotten. Wait::no: whether to
  // ask with Wait::yes, which waits for that, though not for long: somebody may have them open. `seen`, 0 at first, belongs to
  // who tries: the same files give no second reason.
  virtual bool room_comes(Wait wait, std::uint64_t& seen) = 0;
  virtual TreeCounts counts() const = 0;
  virtual TreeActivity activity() const = 0;
};

// Calls again after ENOSPC as long as that may find room.
template <class Call>
auto with_room(Tree& tree, const Call& call) {
  std::uint64_t seen = 0;
  auto result = call();
  while (!result && result.error().code == ENOSPC && tree.room_comes(Wait::yes, seen)) result = call();
  return result;
}

// What check_tree() found.
struct CheckReport {
  static constexpr std::size_t kLinesMax = 1000;
  std::vector<std::string> problems;  // one line each, the first kLinesMax
  std::uint64_t more_problems = 0;    // those that have no line any more
  std::uint64_t miscounts = 0;        // those that are wrong numbers, which what they count tells
  TreeCounts counts;                  // inodes that have a name
  std::uint64_t unused = 0;           // removed files that were open at a crash, which Tree::open() erases
  std::uint64_t removed_trees = 0;    // directories that were removed with what is still in them, which Tree::sweep() takes away
  std::uint64_t block_rows = 0;       // rows of file data

  bool clean() const { return problems.empty(); }
  std::uint64_t all() const { return problems.size() + more_problems; }
};

// What repair_tree() did.
struct RepairReport {
  std::vector<std::string> lines;  // what was mended and what is lost, the first CheckReport::kLinesMax
  std::uint64_t mended = 0;        // how many there were
  CheckReport left;                // what is still wrong, when it ended
};

// Verifies the checksums of all tables in `store`; then reads every row of the tree and looks whether each is sound by
// itself and all agree with each other. Changes nothing. Keeps some 150 bytes of memory for each inode. Must hold:
// nobody changes the store meanwhile. `progress` hears, now and then, how many bytes of tables and then of rows have
// been read. Errors: EIO (a read failed), ENOMEM; damage is no error but a problem.
Result<CheckReport> check_tree(Store& store, const std::function<void(std::uint64_t bytes)>& progress = {});

// For people: what rows of a tree with keys between these two are about, in paths. "": the first, or the last.
std::string rows_between(Family family, std::string_view after, std::string_view before);

// Makes the rows of a tree agree with each other again: counts become what they count, what is damaged is erased, and
// directories and data whose records are lost get new ones in the directory lost+found. Does nothing but forget the log of changes when rows cannot
// be read, as `left` then says. What is mended when it fails or is killed stays mended. Must hold, errors and
// `progress`: as for check_tree(), several times over, and EROFS, ENOSPC.
Result<RepairReport> repair_tree(Store& store, const std::function<void(std::uint64_t bytes)>& progress = {});

}  // namespace lsmfs
