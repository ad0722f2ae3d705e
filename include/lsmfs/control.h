// control: what a program asks of the daemon of a mount, and how.
//
// Each is an ioctl of any file or directory of the mount: who may open that may ask, and the daemon says who may have it. All are defined
// in src/fuse/control/requests.h, and answered by src/fuse/serving/ioctls.cc. What it is not: it mounts and unmounts nothing
// (lsmfs/fuse.h).
//
// `path`: any file or directory of the mount. Errors of all: ENOTTY (not an lsmfs, or one of another version), those of open(2).
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lsmfs/base.h"
#include "lsmfs/import.h"
#include "lsmfs/tree.h"

namespace lsmfs {

// What can change while it is mounted; nullopt: stays.
struct MountSettings {
  TreeSettings tree;
  std::optional<bool> durable_names;
};

// ---- numbers. All but those that say "now" only grow while it is mounted.

struct KindCount {
  std::uint64_t count = 0;   // that were answered
  HistogramCounts took;      // from when the daemon received a request, or handed it to a worker, until it had answered. Of many that
                             // come at once each sixteenth is timed, and stands for as many: there may be some more or less than `count`
  std::uint64_t waited = 0;  // of `count`, those that were handed to a worker: for the device, a commit, or by their kind
  std::uint64_t bytes = 0;   // of data that came with them
};
struct ProgramCount {
  std::uint32_t id = 0;  // of a thread, in the daemon's namespace; 0: none there
  std::uint64_t requests = 0;
};
struct RequestStats {
  static constexpr std::size_t kKinds = 64, kProgramsMax = 64;
  std::array<KindCount, kKinds> kinds;  // by the kernel's number of it; the last is of all beyond
  std::vector<ProgramCount> programs;   // some of those that came last, the busiest first. A number that was away begins at 0
  std::uint64_t other_programs = 0;     // requests of all others
};
// "READ"; "": the kernel has no such kind, or a newer one has.
std::string_view request_kind(std::size_t kind);

// What the layers below count.
struct LayerStats {
  DeviceStats device;
  VolumeUsage volume;
  StoreActivity store;
  TreeActivity tree;
};
struct MountStats {
  std::uint64_t mounted_ns = 0;  // for how long
  RequestStats requests;
  LayerStats layers;
};
// What was counted between the two; of what is as of now that of `now`. Of a program that `before` does not have, all.
MountStats since(const MountStats& now, const MountStats& before);

// Asks for its numbers. Who made requests is told only to root and to who mounted it. Errors: EPROTO (its numbers are of another version,
// which the context names).
Result<MountStats> stats_of_mount(const std::string& path);

// Asks for its facts, as JSON.
Result<std::string> query_mount(const std::string& path);

// Changes what is mounted. Errors: those of Tree::reconfigure(), EPERM (not root).
Result<void> reconfigure_mount(const std::string& path, const MountSettings& settings);

// Has it write what it has and forget what it has cached, as after mounting; the kernel's caches stay. Errors: EPERM (only root may, and
// who mounted it).
Result<void> drop_caches_of_mount(const std::string& path);

// Has it read all that is on its device and verify it, as Tree::scrub(): a table or less at a time, after which `go_on` hears of that
// step, may wait, and says whether to go on. The mount is in use until this returns. Errors: EPERM (only root may, and who mounted it),
// EINTR (stopped).
Result<void> scrub_mount(const std::string& path, const std::function<bool(const ScrubStep&)>& go_on);

// Discards the free space, as fstrim(8) does, of any file system; gives the bytes discarded. Errors: EPERM (only root may, and who mounted
// it), EOPNOTSUPP (the device cannot), EROFS.
Result<ByteCount> trim_mount(const std::string& path);

// Gives it another label. Errors: EPERM (only root may, and who mounted it), EINVAL (check_label()), EROFS.
Result<void> label_mount(const std::string& path, const std::string& label);

// Removes the directory at `path` with all that lies below it, as Tree::remove_tree(). What is mounted below it is unmounted by the kernel:
// whoever minds looks before. Errors: those, ENOTDIR also for a symbolic link, EROFS, EACCES (the caller is neither root nor who mounted it,
// and the mount option user_rm is not set, or he does not own the directory or may not take it away from where it is).
Result<void> remove_tree_of_mount(const std::string& path);

// Makes `name` in the directory `parent` a copy of the directory `source` with all that lies below it, as Tree::clone(), after the kernel was
// asked for what programs have written and it still keeps. The context of an error that is about the place is `parent`/`name`: those of mkdir(2), and those of the
// tree (EINVAL: the place is in the source). Of others it is the path they are about: those of open(2), ENOTDIR also where `source` is a
// symbolic link, ENOTTY, EXDEV, ENAMETOOLONG, EPERM (the caller is neither root nor who mounted it, nor owns the source), ESRCH (the daemon
// does not see the caller, who is in another process namespace), EAGAIN (the daemon has forgotten the wish: a minute has gone by, or the user
// has asked for much else). Where `parent` is the directory of snapshots, it makes a snapshot.
Result<void> clone_in_mount(const std::string& source, const std::string& parent, const std::string& name);

// A tree that is sent as a stream of records (lsmfs/import.h), and is there as a whole when all has come: `name` in the directory `parent`.
class SentImport {
 public:
  // Errors: those of making a file in `parent`, with that as the context; ENOTTY, EEXIST (`name` is there), ENAMETOOLONG, EPERM.
  static Result<SentImport> begin(const std::string& parent, const std::string& name);
  // Gone with all that has been sent, unless it was named.
  ~SentImport() = default;
  SentImport(SentImport&&) = default;

  // The next of it. After an error there is nothing more to send: refusal() may say more.
  Result<void> send(std::string_view stream);
  // Why the daemon has refused what was sent, with the path that it is about in the tree as the context; nullopt: it has not.
  Result<std::optional<Error>> refusal();
  // All was sent. Durable when this returns. Errors: of refusal(), `in_tree`; of making the directory.
  Result<ImportCounts> finish(bool& in_tree);

 private:
  Result<ImportCounts> ask(std::string_view name, std::optional<Error>& refused);
  SentImport(Fd parent_fd, Fd file, std::string parent, std::string name)
      : parent_fd_(std::move(parent_fd)), file_(std::move(file)), parent_(std::move(parent)), name_(std::move(name)) {}

  Fd parent_fd_, file_;
  std::string parent_, name_;
  std::uint64_t sent_ = 0;
};

enum class RollBack : std::uint8_t { now, only_asks };  // the latter: whether the caller may, and nothing is done
// Gives the directory `directory` what the snapshot `snapshot` has, as Tree::roll_back(). What is mounted below it is unmounted by the kernel:
// whoever minds looks before. The context of an error is the path that it is about. Errors: those, those of open(2), ENOTDIR also for a
// symbolic link, ENOTTY, EXDEV, EACCES of `directory` (the caller is neither root nor who mounted it, and the mount option user_rm is not set,
// or he does not own both), ESRCH and EAGAIN as of clone_in_mount().
Result<void> roll_back_in_mount(const std::string& directory, const std::string& snapshot, RollBack what = RollBack::now);

// What differs from the directory `a` to the directory `b`, as find_differences() tells it, after the kernel was asked for what programs have
// written and it still keeps. Takes as long as there is much of it, and waits for others who compare. The context of an error is the path that it is about. Errors:
// those of Tree::differences() but EBUSY, of which EUCLEAN is EIO; those of open(2), ENOTDIR also for a symbolic link, ENOTTY, EXDEV, EPERM of `b`
// (the caller is neither root nor who mounted it, nor owns both), ESRCH and EAGAIN as of clone_in_mount().
// `Exactness::all`: also of what DifferencesAsked::exact has compared.
enum class Exactness : std::uint8_t { usual, all };
Result<std::vector<Difference>> differences_in_mount(const std::string& a, const std::string& b, OneSided one_sided, Exactness exactness = Exactness::usual);

// The names below a directory of files that have several names anywhere, in the order of a walk, each with the number of its file. Costs the
// directories on the way to them. Errors: likewise.
struct LinkedName {
  std::string path;  // from the directory on
  Ino file;
};
Result<std::vector<LinkedName>> linked_names_in_mount(const std::string& directory);

// Of two files, by their paths below two directories: blocks that are the same in both. Others may be the same, too. Reads no data. Errors of both: likewise.
using AskSameBlocks = std::function<Result<std::vector<SameBlocks>>(const std::string& in_a, const std::string& in_b)>;
Result<AskSameBlocks> same_blocks_in_mount(const std::string& a, const std::string& b);

// What may have changed below the directory `path` since the moment of a token, as find_changes() tells it, after the kernel was asked for what
// programs have written and it still keeps. nullopt: only a token is wanted. Errors: those of Tree::changes(); those of open(2), ENOTDIR also
// for a symbolic link, ENOTTY, EPERM (the caller is neither root nor who mounted it, nor owns the directory), EPROTO.
Result<Changes> changes_in_mount(const std::string& path, const std::optional<ChangesToken>& since);

// What is known of the snapshot at `path`. Errors: EINVAL (it is no snapshot, or lies in one), EMSGSIZE (the path of its source is longer than 16,352 bytes).
Result<SnapshotInfo> snapshot_info_of(const std::string& path);
// How much that one has, as Tree::snapshot_sizes(). Takes its time, and waits for others who ask. Errors: those but EBUSY, of
// which EUCLEAN is EIO; EPERM (the caller is neither root nor who mounted it, nor owns the snapshot).
Result<SnapshotSizes> snapshot_sizes_of(const std::string& path);

// Gives it so many bytes of its device, or all; gives how many it has then. Errors: EPERM (only root may, and who mounted it), and those of
// Volume::grow().
Result<ByteCount> grow_mount(const std::string& path, std::optional<ByteCount> size);

}  // namespace lsmfs
