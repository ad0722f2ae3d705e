// Group: what operations have changed and no commit has written yet. NewFile: the contents of a small file that are
// all among it. Committer: commits one group at a time, while operations fill the next: in a thread of its own, or in that of who waits.
//
// What they are not: neither knows what the rows mean, and the order of groups is the tree's matter.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lsmfs/clock.h"
#include "lsmfs/kv.h"
#include "lsmfs/mutex.h"
#include "tree/block_buffer.h"
#include "tree/file_blobs.h"
#include "tree/keys.h"

namespace lsmfs {

// A file all whose rows are of one group. They are in no batch before that group is committed: most files are made under a
// temporary name, renamed, changed again or removed within a moment, and so what comes of that is written once, where it stays.
struct NewFile {
  std::string home;                           // where the rows are to be
  std::map<std::uint64_t, std::string> rows;  // by block, of 1 to kBlockSize bytes each; what a row lacks reads as zeros
};

// The last block of another file that is being appended to: it becomes a row when it is full, or when
// anything else happens, instead of a row and patches to it.
struct Tail {
  Ino ino;
  std::uint64_t index = 0;  // of the block
  std::string key;
  std::string bytes;        // all that the block holds, 1 to kBlockSize - 1 bytes
};

// Whole blocks at the end of a file that go into a blob before the batch is committed, and the row of that blob with it.
struct Streamed {
  Ino ino, number;          // the latter in the file's home
  std::shared_ptr<BlobWriter> writer;
  std::uint64_t blob = 0;   // its number
  std::uint64_t first = 0;  // the file's block that `data` begins with
  BlockBuffer data;
  FileBlobs::Part part;     // when the group is sealed; when it is committed, with the end of the blob
};

// A row that goes past the log once the group is committed.
struct Bulked {
  std::shared_ptr<BulkWriter> to;
  std::string key, row;
};

// Not thread-safe: the tree's mutex guards it, or the committer has it.
struct Group {
  std::uint64_t number = 0;      // ascending from 1; an inode remembers the last group that changes it
  Batch batch;                   // rows in the order of the operations, but for those of new files
  std::vector<Ino> records;      // inodes whose records go with it, at its end
  std::unordered_map<std::string, Ino> entries;  // keys of entries it changes; 0: takes away
  bool blocks = false;           // it changes family blocks
  std::map<Ino, NewFile> new_files;  // their rows follow the others; in the order in which they were made
  std::size_t new_bytes = 0;         // in these rows
  std::optional<Tail> tail;          // not yet in `batch`
  std::vector<Streamed> streamed;
  std::size_t streamed_bytes = 0;
  std::vector<Bulked> bulked;        // what its rows are of is among its records
  std::size_t bulked_bytes = 0;
  Clock::Time commit_began{}, commit_ended{};  // the latter when its commit has ended
  std::vector<BlockBuffer> spare;  // memory for the data of later groups: fresh pages cost more than what is copied into them
  std::vector<std::uint64_t> dropped_blobs;  // nobody wants anything of them any more when it is committed
  Ino written;                       // the file that was written last: it may be written again at once
  std::size_t sealed_bytes = 0;      // bytes() when it was sealed

  bool empty() const { return batch.empty() && records.empty() && !tail; }
  std::size_t bytes() const { return batch.bytes() + new_bytes + bulked_bytes; }  // nearly: without what is around rows of new files
  void put_tail() {
    if (!tail) return;
    batch.put(Family::blocks, tail->key, tail->bytes);
    tail.reset();
  }

  NewFile* find_new(Ino ino);  // nullptr: it is none
  // `bytes` at `at` of a block of a new file.
  void write_new(NewFile& file, std::uint64_t index, std::size_t at, std::string_view bytes);
  void cut_new(NewFile& file, std::uint64_t size);  // to so many bytes
  bool drop_new(Ino ino);                           // it is to have no rows; false: it is no new file
  // From now on it is like any other file: its rows are in the batch, and perhaps the tail.
  void release_new(Ino ino);
  // Where blocks for a blob are put, from block `first` of the file on.
  Streamed& streamed_to(Ino ino, Ino of_home, const std::shared_ptr<BlobWriter>& writer, std::uint64_t blob, std::uint64_t first);
  void drop_streamed();  // whose data nobody needs any more: some of their memory becomes spare
  // Appends what is streamed to its blobs, whose rows it adds to the batch. Errors: those of BlobWriter.
  Result<void> append_streamed();
  void bulk(const std::shared_ptr<BulkWriter>& to, std::string key, std::string_view row);
  void put_bulked();
  // Adds the rows of all new files to the batch, and leaves all else as it is: others may read it meanwhile.
  void put_new_files();

  void begin(std::uint64_t new_number);
};

// Calls come from one thread at a time (the tree's mutex is held), but for wait() and those of its own thread.
class Committer {
 public:
  Committer(Store& store, Clock& clock);
  ~Committer();  // finishes what was begun

  // Puts the rows of its new files, appends what is streamed, and commits it. Must hold: idle, and nobody changes `group` or looks into
  // its batch until finish().
  // `by`: the caller says that it calls wait() at once, so that no other thread need be woken.
  enum class By { its_thread, who_waits };
  void begin(Group& group, By by);
  bool ended() const;        // begun, and finish() may be called
  Result<void> finish();     // the outcome of what has ended; then idle
  void wait();               // until nothing that was begun is under way; from any thread, which commits what none has come to

 private:
  void run();
  void commit() LSMFS_REQUIRES(mutex_);

  Store& store_;
  Clock& clock_;
  mutable Mutex mutex_;
  std::condition_variable changed_;
  Group* group_ LSMFS_GUARDED_BY(mutex_) = nullptr;               // being committed
  bool taken_ LSMFS_GUARDED_BY(mutex_) = false;                   // by a thread
  std::optional<Result<void>> outcome_ LSMFS_GUARDED_BY(mutex_);  // of what was committed last, until finish()
  bool stop_ LSMFS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace lsmfs
