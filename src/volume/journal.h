// The journal: what has changed since the last durable record, and how it becomes durable.
//
// Changes of the metadata wait here in order. A round takes all of them, writes them as one record
// and flushes the device once, for metadata and data together; whoever asks for durability
// meanwhile shares the next round. It writes all that is written to an open volume, so that a
// failed write or flush stops all that follow ("fail-stop").
//
// Locks: mutex_ is taken after a file's own lock and before Space's; it is never held during I/O.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lsmfs/mutex.h"
#include "volume/catalog.h"
#include "volume/extent_owner.h"
#include "volume/metadata_log.h"

namespace lsmfs {

class Journal {
 public:
  Journal(Device& device, Catalog catalog, MetadataLog log);

  // ---- the device
  Result<void> write(std::uint64_t at, Bytes data);
  // One retry, then EIO. `what` says whose bytes these are.
  Result<void> read(std::uint64_t at, MutableBytes to, std::string_view what) const;
  // Of space that nobody owns. A failure loses nothing and stops nothing.
  Result<void> discard(const Extent& extent);
  // EROFS, EBADF after close(), or the error that stopped the volume.
  Result<void> check() const;
  std::optional<Error> failure() const;
  bool writable() const { return writable_; }
  // Stops the volume unless it has stopped already; gives the error that did.
  Error fail(Error error);
  // Every later change fails with EBADF: the volume has gone before one of its writers.
  void close();

  // ---- changes. Each takes effect in the next round; gives the number of that round.
  using FilePtr = std::shared_ptr<ExtentOwner>;
  // `replaced`: the file that loses its name by this change, if any.
  std::uint64_t change(std::string operations, const FilePtr& replaced = nullptr);
  // As change(), but nothing is said of a file that is removed already. `retired` are extents
  // that the file gives up by it.
  std::uint64_t change_file(const FilePtr& file, std::string operations, std::vector<Extent> retired = {});
  std::uint64_t next_round() const;
  std::uint64_t last_change() const;  // the round that makes all changes so far durable

  // ---- durability
  Result<void> reach(std::uint64_t round);  // waits until that round is durable
  Result<void> commit();                    // all changes so far
  // Whether the next round will give back extents.
  bool frees_pending() const;
  // Lets `look` see the metadata log while nothing is appended to it. Whoever wants durability waits meanwhile.
  void look_at_log(const std::function<void(const MetadataLog&)>& look);
  // Records may say from now on that files lie in so many bytes more behind the end of the table region.
  void grow(std::uint64_t length);

 private:
  struct Round {
    std::string operations;
    std::vector<FilePtr> removed;
    std::vector<std::pair<FilePtr, std::vector<Extent>>> retired;
  };
  // `alone` runs while no round does.
  void between_rounds(const std::function<void()>& alone);
  Result<void> run(Round& round);
  static void release(Round& round);

  Device& device_;
  const bool writable_;
  std::atomic<bool> stopped_{false};  // failure_ or closed_ is set: saves the lock in check()

  mutable Mutex mutex_;
  std::condition_variable done_changed_;
  std::optional<Error> failure_ LSMFS_GUARDED_BY(mutex_);
  bool closed_ LSMFS_GUARDED_BY(mutex_) = false;
  Round pending_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t pending_round_ LSMFS_GUARDED_BY(mutex_) = 0;  // the round that the last change needs
  std::uint64_t started_ LSMFS_GUARDED_BY(mutex_) = 0, done_ LSMFS_GUARDED_BY(mutex_) = 0;
  bool running_ LSMFS_GUARDED_BY(mutex_) = false;

  // Only the thread that runs a round touches these.
  Catalog catalog_;
  MetadataLog log_;
};

}  // namespace lsmfs
