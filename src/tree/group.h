// Group: what operations have changed and no commit has written yet. Committer: commits one group at
// a time in a thread of its own, while operations fill the next.
//
// What they are not: neither knows what the rows mean, and the order of groups is the tree's matter.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lsmfs/kv.h"

namespace lsmfs {

// The last block of a file that is being appended to: it becomes a row when it is full, or when
// anything else happens, instead of a row and patches to it.
struct Tail {
  Ino ino;
  std::uint64_t index = 0;  // of the block
  std::string key;
  std::string bytes;        // all that the block holds, 1 to kBlockSize - 1 bytes
};

// Not thread-safe: the tree's mutex guards it, or the committer has it.
struct Group {
  std::uint64_t number = 0;      // ascending from 1; an inode remembers the last group that changes it
  Batch batch;                   // rows in the order of the operations
  std::vector<Ino> records;      // inodes whose records go with it, at its end
  std::unordered_map<std::string, Ino> entries;  // keys of entries it changes; 0: takes away
  bool blocks = false;           // it changes family blocks
  // Where `batch` has the rows of file data, by block, of files all whose rows it puts whole and changes no more: who
  // gives them another name moves them without waiting for the commit after which they can be read.
  std::unordered_map<Ino, std::map<std::uint64_t, Batch::Place>> whole_files;
  std::optional<Tail> tail;      // not yet in `batch`

  bool empty() const { return batch.empty() && records.empty() && !tail; }
  void put_row(Ino ino, std::uint64_t index, std::string_view key, std::string_view bytes) {
    const Batch::Place place = batch.put(Family::blocks, key, bytes);
    if (const auto found = whole_files.find(ino); found != whole_files.end()) found->second[index] = place;
  }
  void put_tail() {
    if (!tail) return;
    put_row(tail->ino, tail->index, tail->key, tail->bytes);
    tail.reset();
  }
  void begin(std::uint64_t new_number) {
    number = new_number;
    batch.clear();
    records.clear();
    entries.clear();
    blocks = false;
    whole_files.clear();
    tail.reset();
  }
};

// Calls come from one thread at a time (the tree's mutex is held), but for those of its own thread.
class Committer {
 public:
  explicit Committer(Store& store);
  ~Committer();  // finishes what was begun

  void begin(Batch& batch);  // must hold: idle; `batch` stays as it is until finish()
  bool ended() const;        // begun, and finish() will not wait
  Result<void> finish();     // waits for the end of what was begun; its outcome, then idle

 private:
  void run();

  Store& store_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Batch* batch_ = nullptr;                // being committed
  std::optional<Result<void>> outcome_;   // of what was committed last, until finish()
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lsmfs
