// NamesView: rows of family names as they all were at one moment, for who reads many of them without the tree's lock and has nothing of what has
// come since.
//
// What it is not: it caches nothing, and knows nothing of inodes in memory. All rows that are wanted must be committed before its cursor is made.
//
// It keeps tables from being removed that were there at that moment, so it is not for keeping. All may fail with EINTR (told to stop), EUCLEAN
// (a row is damaged, or lost) and EIO. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lsmfs/kv.h"
#include "tree/file_blobs.h"
#include "tree/record.h"

namespace lsmfs {

class NamesView {
 public:
  // `rows`: of all names. `stop` must outlive it.
  NamesView(std::unique_ptr<Cursor> rows, const Stop& stop) : rows_(std::move(rows)), stop_(stop) {}

  // Some entries of a directory in order, from the first after the name `after` on; "": from the beginning. None: there are no more.
  using Entries = std::vector<std::pair<std::string, EntryRow>>;
  Result<Entries> entries(const std::string& dir_home, std::string_view after, std::size_t most = kEntriesAtOnce);
  Result<std::optional<EntryRow>> entry(const std::string& dir_home, std::string_view name);
  Result<Record> linked(Ino ino);  // must hold: some entry is a name of it
  Result<std::string> xattr(const std::string& home, std::string_view name);  // must hold: a record says that it has a row there

  // By the numbers of homes: a base that no file has; the parts of a file, or a base; and the first user of a base whose number is not
  // below `least`.
  Result<std::optional<Node>> node(Ino number);
  Result<FileBlobs> parts(Ino number);
  struct User {
    Ino number;
    bool whole;  // all that the base has is what it has
  };
  Result<std::optional<User>> user(Ino base, Ino least = {});

  std::uint64_t read() const { return read_; }  // rows, so far

 private:
  static constexpr std::size_t kEntriesAtOnce = 1024;
  static constexpr std::uint64_t kRowsBetweenLooks = 128;  // whether to stop

  Result<void> go_on();
  Result<std::optional<std::string_view>> value_at(const std::string& key);

  const std::unique_ptr<Cursor> rows_;
  const Stop& stop_;
  std::uint64_t read_ = 0;
  // Bases [from, to) have no users, as far as was seen. Mostly the next one that is asked for is among them.
  Ino unused_from_{}, unused_to_{};
};

}  // namespace lsmfs
