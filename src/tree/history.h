// History: what operations have changed, in groups, and how far it has been committed. One group is open; the one before it may be under
// way to the store. A failed commit ends it: from then on all that was acknowledged stays in memory.
//
// What it is not: it knows no inodes, and nothing of what is durable. What becomes of a group's rows is its client's matter.
//
// Locks: the tree's mutex guards it, and every call is made with it held. await() gives it up meanwhile; nothing else here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "tree/group.h"
#include "tree/tree_lock.h"

namespace lsmfs {

class History {
 public:
  // Is called with the lock, and must not give it up.
  class Client {
   public:
    virtual ~Client() = default;
    // A group is about to be passed on: the records that go with it are to be put into it.
    virtual void put_records(Group& group) LSMFS_LOCKED = 0;
    // Its rows can be read from now on, also if its commit has failed. May add to the open group.
    virtual void settled(const Group& group) LSMFS_LOCKED = 0;
    // Its commit has failed, or nothing is committed any more: what can be read of it later goes into its batch.
    virtual void keep(Group& group) LSMFS_LOCKED = 0;
    // It is in the store.
    virtual void committed(const Group& group) LSMFS_LOCKED = 0;
  };

  // An open group of so many bytes or records should be passed on.
  static constexpr std::size_t kGroupBytes = 256 * KiB;
  static constexpr std::size_t kGroupRecords = 512;
  static constexpr std::size_t kGroupStreamed = MiB;  // or of so many bytes for blobs

  // `notice` hears of a failure.
  History(Store& store, Clock& clock, Client& client, std::function<void(std::string_view)> notice);

  // ---- groups. Their numbers ascend by one.
  Group& open() const LSMFS_LOCKED { return *open_; }                  // what operations add to
  Group* sealed() const LSMFS_LOCKED { return sealed_; }               // being committed; nullptr: none
  std::uint64_t committed() const LSMFS_LOCKED { return committed_; }  // the last one whose rows can be read; after a failure, from memory
  bool larger_than(std::size_t times) const LSMFS_LOCKED;              // the open one, by kGroupBytes and kGroupRecords
  bool has_streamed(std::size_t times) const LSMFS_LOCKED { return open_->streamed_bytes >= times * kGroupStreamed; }
  std::size_t uncommitted_bytes() const LSMFS_LOCKED { return open_->bytes() + (sealed_ ? sealed_->sealed_bytes : 0); }
  // The last group that makes rows or takes them away, a new inode's record too. Records that are only written again may be still to
  // come: they go where the inode is by then.
  std::uint64_t last_rows() const LSMFS_LOCKED;

  // ---- commits
  // Must hold: none is sealed.
  void pass_on(Committer::By by) LSMFS_LOCKED;
  // EAGAIN: `group`, of an inode, says that a group changed rows last which the store does not show yet, and `lock` wants that group.
  // Must hold: nothing is changed yet.
  Result<void> settle(const TreeLock& lock, std::uint64_t group) const LSMFS_LOCKED;
  // Until the group is committed, or its rows are kept in memory after a failure: they can be read then. Passes it on if it is open. The
  // lock is given up meanwhile.
  void await(TreeLock& lock, std::uint64_t group) LSMFS_LOCKED;
  // What has been committed is settled. Errors: EIO, it could not be.
  Result<void> finish_ended(const TreeLock& lock) LSMFS_LOCKED;

  // ---- failure
  const std::optional<Error>& failure() const LSMFS_LOCKED { return failure_; }
  // Read-only from now on, and says so once.
  void fail(std::string_view what, const Error& error) LSMFS_LOCKED;

 private:
  void seal() LSMFS_LOCKED;       // ends the open group with its records; the rows of its new files are still to follow
  Group& next() LSMFS_LOCKED;     // opens the group after the one that is open, and gives that one
  void keep_open() LSMFS_LOCKED;  // what is open, after a failure
  void settled(const Group& group) LSMFS_LOCKED;

  Store& store_;
  Client& client_;
  const std::function<void(std::string_view)> notice_;
  Group groups_[2] LSMFS_GUARDED_BY(tree_mutex);
  Group* open_ LSMFS_GUARDED_BY(tree_mutex) = &groups_[0];
  Group* sealed_ LSMFS_GUARDED_BY(tree_mutex) = nullptr;  // what the committer has
  std::uint64_t committed_ LSMFS_GUARDED_BY(tree_mutex) = 0;
  std::optional<Error> failure_ LSMFS_GUARDED_BY(tree_mutex);
  Committer committer_;
};

}  // namespace lsmfs
