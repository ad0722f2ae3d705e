// Makes the records of a snapshot, or of what differs from another one. It reads files by ordinary system calls, with the rights of its caller.
//
// What it is not: it finds no differences (changes.h says what is to be sent), and writes no frames.
//
// A snapshot does not change, so its records are the same each time. Those before the point where a stream goes on are only counted, and no
// data is read for them.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/transfer/changes.h"
#include "cli/transfer/frames.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {

// Of two files of one size, by paths below the base and the snapshot: the parts that may differ, in order; a multiple of blocks each, the last
// may reach beyond the end.
struct FileRange {
  std::uint64_t offset, count;
};
using AskRanges = std::function<Result<std::vector<FileRange>>(const std::string& old_path, const std::string& path)>;

class Sender {
 public:
  using Progress = std::function<void(std::uint64_t bytes)>;  // of data so far
  // All must outlive it. `root`: the snapshot; `name`: as it is called in messages.
  Sender(const Fd& root, std::string name, StreamWriter& writer, Progress progress) : root_(root), name_(std::move(name)), writer_(writer), progress_(std::move(progress)) {}

  // Errors: the context is a whole message.
  Result<void> send_all();
  // `ask`: nullptr sends whole what has changed.
  Result<void> send_changes(const ChangePlan& plan, const AskRanges& ask);

  std::uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {  // an inode and where it is
    std::string path;
    const Fd* directory;  // that has it; must outlive it
    std::string name;     // in there, or "."
    struct stat facts {};
  };
  struct Listing;

  template <class Make>
  Result<void> put(const Make& make);
  Result<Entry> entry_in(const Fd& directory, const std::string& path);
  Error failed(int code, const std::string& path, const char* what = "") const;

  Result<void> put_tree(const std::string& top);
  Result<void> put_node(const Entry& entry, NodeRecord::Contents contents);
  Result<Fd> open_entry(const Entry& entry);
  Result<void> put_contents(const Fd& file, const Entry& entry, std::uint64_t from, std::uint64_t end, bool with_holes);
  Result<void> put_data(const Fd& file, const Entry& entry, std::uint64_t from, std::uint64_t end);
  Result<void> put_attributes(const Fd& file, const Entry& entry);
  Result<void> put_whole(const Entry& entry, NodeRecord::Contents contents);
  Result<void> put_changed(const Entry& entry, const std::string& old_path, const AskRanges& ask);
  Result<void> put_directory(const std::string& path);
  Result<void> put_last();

  const Fd& root_;
  const std::string name_;
  StreamWriter& writer_;
  const Progress progress_;
  const ChangePlan* plan_ = nullptr;                     // nullptr: all is sent
  std::map<std::uint64_t, std::string> known_;           // names of files of several, by inode number: of those that were sent
  std::map<std::string, std::uint32_t> locking_;         // flags that come last
  std::vector<std::string> later_;                       // directories whose attributes come later
  std::uint64_t bytes_ = 0;
};

}  // namespace lsmfs::cli
