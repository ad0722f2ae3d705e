// A plain file system in memory, written as simply as possible: what the tree is compared with.
#pragma once

#include <linux/fs.h>
#include <sys/stat.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lsmfs/tree.h"

namespace lsmfs::test {

// Bytes that copies share until one of them is changed. Their checksum is computed once.
class Contents {
 public:
  Contents() : Contents(std::string()) {}
  explicit Contents(std::string bytes) : shared_(std::make_shared<Shared>(std::move(bytes))) {}
  const std::string& operator*() const { return shared_->bytes; }
  const std::string* operator->() const { return &shared_->bytes; }
  std::string& change() {
    shared_ = std::make_shared<Shared>(shared_.use_count() == 1 ? std::move(shared_->bytes) : shared_->bytes);
    return shared_->bytes;
  }
  std::uint64_t checksum() const {
    if (!shared_->checksum) shared_->checksum = lsmfs::checksum(shared_->bytes);
    return *shared_->checksum;
  }

 private:
  struct Shared {
    explicit Shared(std::string what) : bytes(std::move(what)) {}
    std::string bytes;
    std::optional<std::uint64_t> checksum;
  };
  std::shared_ptr<Shared> shared_;
};

struct Node {
  Ino ino;  // as the tree numbered it
  std::uint32_t mode = 0, nlink = 0, uid = 0, gid = 0, flags = 0;
  std::uint64_t rdev = 0;
  Contents data;  // a file's contents, a symbolic link's target, the path of what a snapshot is of
  Time mtime, ctime, btime;
  std::map<std::string, std::string> xattrs;
  std::map<std::string, std::shared_ptr<Node>> entries;
  bool linkable = false;  // made without a name, and without one so far
  bool held = false;      // in use, and stays so without a name
  bool had_several = false;  // names
  bool read_only = false; // a snapshot, or something in one
  bool is_directory() const { return S_ISDIR(mode); }
  // What is made in a directory has these flags of it, of whatever type it is.
  void inherit_flags(const Node& dir) { flags = dir.flags & (FS_NODUMP_FL | FS_NOATIME_FL); }
  // From the tree after each operation on it: what must survive. When it was made is known at once, and for ever.
  void take_times(const Attr& attr) {
    mtime = attr.mtime;
    ctime = attr.ctime;
    if (btime == Time{}) btime = attr.btime;
  }
};
using NodePtr = std::shared_ptr<Node>;

// Each operation gives 0 or the errno that rename(2), unlink(2) ... give on ext4, and EROFS for what would change a snapshot.
class Model {
 public:
  Model();
  NodePtr root, snapshots;  // the latter: the directory of snapshots, which is nobody's entry
  Model copy() const;  // with nodes of its own; hard links stay so

  int make(const NodePtr& dir, const std::string& name, std::uint32_t mode, const std::string& target, NodePtr& made);
  int link(const NodePtr& node, const NodePtr& dir, const std::string& name);
  int unlink(const NodePtr& dir, const std::string& name);
  int rmdir(const NodePtr& dir, const std::string& name);
  int remove_tree(const NodePtr& dir, const std::string& name);
  // A snapshot, where `to` is their directory. The copy and all below it have no numbers yet: take_numbers() gives them. Nor is it known when a
  // snapshot was made: take_times() tells.
  int clone(const NodePtr& dir, const NodePtr& to, const std::string& name, NodePtr& made);
  // What is below `dir` goes, and what is below the snapshot comes, as by clone().
  int roll_back(const NodePtr& dir, const NodePtr& snapshot);
  // All files and directories below it, once each; and whether each name of a file is among those.
  static std::vector<NodePtr> all_below(const NodePtr& dir);
  static bool has_all_names(const NodePtr& dir);
  int rename(const NodePtr& from_dir, const std::string& from, const NodePtr& to_dir, const std::string& to, unsigned flags);
  int write(const NodePtr& node, std::uint64_t offset, const std::string& data);
  int truncate(const NodePtr& node, std::uint64_t size);
  int copy_range(const NodePtr& from, std::uint64_t at, const NodePtr& to, std::uint64_t to_at, std::uint64_t length);
  int fallocate(const NodePtr& node, int mode, std::uint64_t offset, std::uint64_t length);

  // The path of a directory, as SnapshotInfo has it.
  std::string path_of(const NodePtr& dir) const;

  // All that a user can see of the tree, one line for each name in order; snapshots come last, if ever there was one.
  std::string dump() const;
  static std::string line(const std::string& path, const Attr& attr, const Contents& contents,
                          const std::map<std::string, std::string>& xattrs);
};

// The same text from a real tree. Raises and gives back lookups; `blocks` are checked for sanity.
// What cannot be read is not there, or is an error message; `failed` hears of the paths.
std::string dump(Tree& tree, std::set<std::string>* failed = nullptr);

// Gives the entry `name` of `dir`, and all below it, the numbers that the tree has for them. Lookups are given back. EUCLEAN: the names of
// one file have different numbers, or the tree has others or further names there.
Result<void> take_numbers(Tree& tree, const NodePtr& dir, const std::string& name);

}  // namespace lsmfs::test
