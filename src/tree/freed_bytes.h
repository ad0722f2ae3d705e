// FreedBytes: how much data would come back if a directory were removed with all that lies below it. It follows what the removal and the
// background would do (bases.cc), and changes nothing: what has no other users than those that would go, goes as well.
//
// What it is not: it counts no names, attributes or space that tables take for a while. Not thread-safe; for one directory.
//
// It reads the names of what would go, and of what is shared with others the users. Memory: for each file and directory of these that shares with
// others, or shows a base, some 100 bytes and its path. For a large file that others have some of, a bit for each block, too.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "lsmfs/base.h"
#include "tree/names_view.h"
#include "tree/unseen.h"

namespace lsmfs {

class FreedBytes {
 public:
  explicit FreedBytes(NamesView& view) : view_(view) {}
  // Of the directory of that record, at `home`. Errors: those of the view.
  Result<ByteCount> without(const Record& directory, const std::string& home);

 private:
  // Of a base: who uses it no more, and before which number nobody else does.
  struct Lost {
    std::unordered_set<Ino> users;
    Ino from{};
  };
  // A base that nobody has any more, as far as it would change.
  struct Left {
    Node node;
    std::optional<FileBlobs> parts;  // if they have been read
    bool gone = false;
  };
  // A file of several names of which some would go.
  struct Linked {
    Record record;
    std::uint32_t names = 0;
  };

  Result<void> drop(const Record& record, const std::string& home);
  Result<void> drop_entries(const std::string& home);
  Result<void> drop_link(Ino ino);
  Result<void> drop_data(Ino number, const Node& node, const FileBlobs& parts);
  Result<void> look_at(Ino number);
  Result<void> trim(Ino number, Left& left);
  Result<std::optional<NamesView::User>> next_user(Ino base, Ino least);
  Result<FileBlobs*> parts_of(Ino number, Left& left);
  void leave(const std::string& base, Ino user);

  NamesView& view_;
  std::uint64_t blocks_ = 0;  // that come back
  std::unordered_map<Ino, Lost> lost_;      // by the numbers of bases
  std::unordered_map<Ino, Left> left_;      // likewise
  std::unordered_map<Ino, Linked> linked_;
  std::set<Ino> to_look_at_;                // bases that have lost something of a user, or their owner
  std::vector<std::string> directories_;    // homes of those that would go and have not been read
  std::unordered_set<Ino> met_;             // by the numbers of homes that are explicit: those of a damaged tree may lie in each other
};

}  // namespace lsmfs
