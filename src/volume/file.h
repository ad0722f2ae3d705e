// One file of a volume as it is now, durable or not: its extents, its size, what is buffered.
//
// A File lives as long as it has a name, or a reader or writer holds it, or its removal is not yet
// durable; its destructor gives its extents back. Two kinds: TableFile (tables and small files,
// plain bytes) and LogFile (frames).
//
// Locks, in order: File::mutex_ -> Journal -> WriteQueue -> retire_mutex_, label_mutex_ -> Space.
// None is held during a flush that another file's append waits for.
#pragma once

#include <atomic>
#include <memory>

#include "lsmfs/mutex.h"
#include "volume/catalog.h"
#include "volume/extent_owner.h"

namespace lsmfs {

class Journal;
class Space;
struct Shared;

// What a reader needs; fixed when it is opened.
class Contents {
 public:
  virtual ~Contents() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `to` with the bytes at `from`. It begins before size() and ends at it at the latest; or,
  // when offset, length and address are all multiples of the block, at the end of the last block.
  virtual Result<void> read(std::uint64_t from, MutableBytes to) const = 0;
};

class File : public ExtentOwner, public std::enable_shared_from_this<File> {
 public:
  // `record` is what the metadata log says, or for a new file its id, kind, seed and name.
  File(Shared& shared, const FileRecord& record);
  ~File() override;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // As the functions of FileWriter.
  virtual Result<void> append(Bytes data) = 0;
  virtual Result<void> sync() = 0;
  virtual Result<void> precede_logs() = 0;
  virtual Result<void> allocate(std::uint64_t bytes) = 0;
  virtual Result<void> truncate(std::uint64_t size) = 0;
  virtual Result<void> close() = 0;  // the last call of a writer
  void announce(std::uint64_t expected);
  void set_lifetime(Lifetime lifetime);

  virtual Result<std::uint64_t> size() = 0;
  // Writes out what is buffered (not durable) and gives all there is now.
  virtual Result<std::unique_ptr<Contents>> contents() = 0;
  // Has the next round say how much of the file is durable, if that is not known without the file.
  virtual void note_synced() {}
  // Makes the file ready to append to; before the first append of a writer.
  virtual Result<void> begin_append() = 0;

  // How many bytes of the device scrub() would read now.
  virtual std::uint64_t scrub_bytes() = 0;
  // Reads what is durable as it is on the device. Must hold: the caller is counted as a reader. Errors: EUCLEAN, EIO, EINTR
  // (stopped).
  virtual Result<void> scrub(const Stop& stop) = 0;

  // One writer at a time. False when there is one already.
  bool take_writer() { return !writer_open_.exchange(true); }
  void give_writer() { writer_open_ = false; }
  // Extents that were given up stay readable for those who opened the file before.
  void add_reader();
  void drop_reader();

  // Follows a change of the name; false when a snapshot would have no room for it.
  bool set_label(std::string_view name);
  std::string label() const;  // the last name, for messages
  std::uint64_t id() const { return id_; }

  // Gives extents back that the file does not own any more, once no reader can look there.
  void retire(std::vector<Extent> extents) override;

 protected:
  // Makes sure that the extents cover `total` bytes. ENOSPC with nothing changed.
  Result<void> ensure_allocated(std::uint64_t total) LSMFS_REQUIRES(mutex_);
  // Places of a range of the file's extents on the device.
  static std::vector<Extent> places(const std::vector<Extent>& extents, std::uint64_t from, std::uint64_t length);
  Result<void> write_extents(std::uint64_t from, Bytes data) LSMFS_REQUIRES(mutex_);
  // The end of the granule that holds the byte before `length`, counted through the extents.
  std::uint64_t whole_granules(std::uint64_t length) const LSMFS_REQUIRES(mutex_);
  // Replaces the list of extents by a shorter one in memory; keeps the accounts of the snapshot.
  std::vector<Extent> cut_allocation(std::uint64_t from) LSMFS_REQUIRES(mutex_);
  void set_extents(std::vector<Extent> extents) LSMFS_REQUIRES(mutex_);

  // Leaves recorded extents to the destructor, which frees them if the file has been removed.
  void abandon(const std::vector<Extent>& extents);

  Shared& shared_;
  const std::uint64_t id_;
  const FileKind kind_;
  const std::uint64_t seed_;

  Mutex mutex_;
  std::vector<Extent> extents_ LSMFS_GUARDED_BY(mutex_);
  std::uint64_t allocated_ LSMFS_GUARDED_BY(mutex_) = 0;  // total length of extents_
  std::uint64_t announced_ LSMFS_GUARDED_BY(mutex_) = 0;
  Lifetime lifetime_ LSMFS_GUARDED_BY(mutex_) = Lifetime::brief;

 private:
  const std::shared_ptr<Space> space_;
  mutable Mutex label_mutex_;
  std::string label_ LSMFS_GUARDED_BY(label_mutex_);
  std::uint64_t charged_name_ LSMFS_GUARDED_BY(label_mutex_);  // the longest name that is accounted for
  std::atomic<bool> writer_open_{false};

  Mutex retire_mutex_;
  std::uint64_t readers_ LSMFS_GUARDED_BY(retire_mutex_) = 0;
  // Given up, but a reader may still look there: no record names them any more, or none ever did. In the destructor also those
  // of abandon(), which records still name.
  std::vector<Extent> retired_ LSMFS_GUARDED_BY(retire_mutex_);
};

// Reads a range of extents through the journal.
Result<void> read_extents(const Journal& journal, const std::vector<Extent>& extents, std::uint64_t from,
                          MutableBytes to, std::string_view name);

}  // namespace lsmfs
