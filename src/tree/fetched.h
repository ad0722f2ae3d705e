// Fetched: rows that an operation has not found in memory, and that are read for it without the tree's lock. The operation is begun
// again then, and finds them here, also where the cache was too small to keep them.
//
// They hold for as long as no group is settled. Whoever looks something up says which one was the last (as_of).
// Not thread-safe.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lsmfs/kv.h"
#include "tree/blob_readers.h"
#include "tree/keys.h"

namespace lsmfs {

inline constexpr ByteCount kRowsReadahead{256 * KiB};  // so far the device is read at a time for rows that are not in memory

class Fetched {
 public:
  // The rows of a family from `from` to before `upper`.
  struct Range {
    Family family = Family::names;
    std::string from, upper;
    std::size_t most = SIZE_MAX;  // bytes: no more rows than are needed for as many, but two
    bool values = true;           // or the keys alone
    bool operator==(const Range&) const = default;
  };
  struct Rows {
    std::vector<std::pair<std::string, std::string>> rows;  // keys with values
    Result<void> end;  // why these are all: success, there are no more; EAGAIN, there may be more; what the store said else
  };

  void fetch(Store& store, Family family, const std::string& key);
  void fetch(Store& store, const Range& range);
  // Blocks of a blob, which stay as they are.
  void fetch_blob(BlobReaders& readers, std::uint64_t blob, const BlobEnd& end, std::uint64_t block, std::uint64_t count);

  // Which blocks before `end` of a file have rows, as runs [from, to). They hold as long as the file is at the same `state`, whatever is settled.
  using Runs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  void fetch_runs(Store& store, const std::string& home, BlockIndex end, std::uint64_t state);

  // The last group that is settled, as History counts. Rows that were read when it was another go. Before something is fetched, and before
  // something is looked up: an operation may settle a group itself, after its rows were read.
  void as_of(std::uint64_t settled);

  // What was fetched; nullptr: it was not, or not as of now.
  const Result<std::optional<std::string>>* find(Family family, const std::string& key) const;
  const Rows* find(const Range& range) const;
  const Result<std::string>* find_blob(std::uint64_t blob, std::uint64_t block, std::uint64_t count) const;
  const Result<Runs>* find_runs(const std::string& home, std::uint64_t state) const;

 private:
  struct Part {
    Range range;
    Rows rows;
  };

  std::uint64_t settled_ = 0;
  std::map<std::pair<Family, std::string>, Result<std::optional<std::string>>> rows_;
  std::list<Part> parts_;
  struct BlobPart {
    std::uint64_t blob, block, count;
    Result<std::string> bytes;
  };
  std::list<BlobPart> blob_parts_;
  struct FileRuns {
    std::string home;
    std::uint64_t state;
    Result<Runs> runs;
  };
  std::list<FileRuns> file_runs_;
};

Fetched::Rows read_rows(Store& store, const Fetched::Range& range, Wait wait);

// A cursor over rows, which must outlive it.
std::unique_ptr<Cursor> cursor_over(const Fetched::Rows& rows);

}  // namespace lsmfs
