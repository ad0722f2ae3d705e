// A Tree in maps, for testing what lies above it without a store.
//
// What it is not: durable, fast or sparing. It counts its calls, and can be told to answer Wait::no
// with EAGAIN, or a kind of call with an error. Time goes on whenever it looks. Threads: all of it, under one mutex.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "lsmfs/tree.h"

namespace lsmfs::test {

class MemoryTree : public Tree {
 public:
  MemoryTree();

  // What trim() does; set before it is called.
  std::function<Result<ByteCount>(const TrimRange&, const Stop&)> on_trim;
  // What scrub() does; likewise.
  std::function<Result<ScrubStep>(ScrubPosition&, const Stop&)> on_scrub;
  // Called with the name of each call before it does anything; an error is its result.
  void set_hook(std::function<Result<void>(const std::string& call, Wait wait)> hook);
  void set_sizes(std::function<Result<SnapshotSizes>(const Stop&)> sizes);  // what snapshot_sizes() does of a snapshot
  using Differing = std::function<Result<DifferencesStep>(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop)>;
  void set_differences(Differing differences);  // what differences() does of two directories; nothing differs at first
  using Changing = std::function<Result<ChangesStep>(Ino dir, const ChangesAsked& asked, const Stop& stop)>;
  void set_changes(Changing changes);  // what changes() does of a directory; nothing has changed at first
  void set_surplus(std::vector<Ino> inodes);  // what surplus() gives the next time
  void set_snapshots_of(std::string path);    // what snapshot_info() says that each is one of; "/" at first
  std::uint64_t calls(const std::string& call) const;
  std::uint64_t lookups(Ino ino) const;  // 0 also when there is no such inode
  std::uint64_t inodes() const;  // without the directory of snapshots
  std::uint64_t total_lookups() const;

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
  Result<void> write_staged(Ino, Ino ino, ByteOffset offset, Bytes data) override { return write(ino, offset, data, Wait::yes, ChangeTime::stays); }
  Result<void> settle_staged(Ino) override { return {}; }
  Result<void> unlink(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rmdir(Ino dir, std::string_view name, Wait wait) override;
  Result<void> rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                      Wait wait, Owner whiteout_owner) override;
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
  // As far as what lies below counts as gone with it.
  Result<std::string> remove_tree(Ino dir, Ino parent, Wait wait) override;
  Result<void> clone(Ino dir, Ino to, std::string_view name, Wait wait) override;
  Result<SnapshotInfo> snapshot_info(Ino ino, Wait wait) override;
  Result<SnapshotSizes> snapshot_sizes(Ino ino, const Stop& stop) override;
  Result<ChangesStep> changes(Ino dir, const ChangesAsked& asked, const Stop& stop) override;
  Result<DifferencesStep> differences(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) override;
  Result<std::vector<SweptEntry>> roll_back(Ino dir, Ino snapshot, Wait wait) override;  // as remove_tree()
  bool in_use(Ino dir, std::string_view name) override;
  Result<bool> sweep() override { return false; }
  void on_swept(std::function<void(std::vector<SweptEntry>)> told) override;
  void tell_swept(std::vector<SweptEntry> entries);  // as a sweep
  Result<void> sync() override;
  Result<bool> relocate() override { return false; }
  Result<void> drop_caches() override;
  Result<ByteCount> trim(const TrimRange& range, const Stop& stop) override;
  Result<ScrubStep> scrub(ScrubPosition& position, const Stop& stop) override;
  Result<void> reconfigure(const TreeSettings& settings) override;
  bool read_only() const override;
  TreeSettings settings() const;  // the last ones
  Result<SpaceInfo> space(Wait wait) override;
  bool room_comes(Wait, std::uint64_t&) override { return false; }
  TreeCounts counts() const override;
  TreeActivity activity() const override { return {}; }

 private:
  struct Node {
    Attr attr;
    Ino parent;        // where it was made; of a directory, where it is
    std::string data;  // contents or target
    std::map<std::string, Ino, std::less<>> children;
    std::map<std::string, std::uint64_t, std::less<>> cookies;  // given out for the entry before
    std::map<std::uint64_t, std::string> names_of_cookies;
    std::map<std::string, std::string, std::less<>> xattrs;
    std::uint64_t lookups = 0;
    bool staged = false;  // a directory that has no name yet
  };

  Result<void> enter(const char* call, Wait wait);
  Node& add_unnamed(Ino dir, const NewInode& inode);
  Result<Node*> node(Ino ino);
  Result<Node*> directory(Ino ino);
  Result<Ino> child(Node& dir, std::string_view name);
  Time now();  // later than ever before
  void changed(Node& dir);
  void detach(Ino ino, bool is_directory);
  void remove_below(Ino dir);
  Ino copy(Ino of, Ino parent, std::map<Ino, Ino>& copies);  // of all below, too; they know what has been copied
  void erase_if_unused(Ino ino);

  mutable std::mutex mutex_;
  std::map<Ino, Node> nodes_;
  std::int64_t ticks_ = 0;
  std::uint64_t next_ino_ = 2;
  std::uint64_t next_cookie_ = 3;
  std::function<Result<void>(const std::string&, Wait)> hook_;
  std::map<std::string, std::uint64_t> calls_;
  std::vector<Ino> surplus_;
  std::function<Result<SnapshotSizes>(const Stop&)> sizes_;
  Differing differences_;
  Changing changes_;
  std::string snapshots_of_ = "/";
  std::function<void(std::vector<SweptEntry>)> on_swept_;
  TreeSettings settings_;
};

}  // namespace lsmfs::test
