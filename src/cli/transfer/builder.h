// Does what the records of a stream say, to a tree that nobody else works in.
//
// Whatever records say, nothing outside of that tree is touched: no link is followed, and no path leads up (beneath.h). All that was done can be
// done once more, from any record on from which all later ones are done again.
//
// Of what it has made itself it knows what there is, and does not look. Of what a directory hands down to what is made in it, it learns by the
// first inode of each type. All else is looked at: what an earlier receive has left, and what the base has.
//
// What it is not: it reads no streams, checks no sums, and keeps nothing of how far it is (receiving.h).
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/transfer/records.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {

class Builder {
 public:
  // Both must outlive it. `moved`: where it has what was taken.
  Builder(const Fd& tree, const Fd& moved) : tree_(tree), moved_(moved) {}

  // Errors: the context is a whole message, about a path in the tree. EPERM: the caller may not; EPROTO: nothing that lsmfs send has written says that.
  Result<void> apply(const StreamRecord& record);
  // As if the record of this node had been applied, which it has.
  Result<void> go_on_with(const std::string& path);

  bool has_node() const { return has_node_; }
  const std::string& node() const { return path_; }

 private:
  Result<void> take(const TakeRecord& record);
  Result<void> remove(const RemoveRecord& record);
  Result<void> place(const PlaceRecord& record);
  Result<void> begin(const NodeRecord& record);
  Result<void> make(const NodeRecord& record);
  Result<void> write(const DataRecord& record);
  Result<void> punch(const HoleRecord& record);
  Result<void> set(const XattrRecord& record);
  Result<void> finish(const AttributesRecord& record);
  Result<void> resize(const AttributesRecord& record);
  Result<void> link(const LinkRecord& record);
  Result<void> lock(const FlagsRecord& record);

  struct Directory;
  Result<std::shared_ptr<Directory>> parent(const std::string& path);
  Result<void> go_to(const std::string& path);
  Result<struct stat> open_node(bool to_write);
  Result<void> own(const struct stat& facts, std::uint32_t uid, std::uint32_t gid);
  Result<std::uint32_t> clean(const AttributesRecord& record);
  template <class Do>
  int unlocked(const Fd& parent, const std::string& name, const Do& act);
  std::string at() const;  // a path to the node itself

  const Fd &tree_, &moved_;
  std::vector<std::shared_ptr<Directory>> way_;  // to the directory that was asked for last, from above
  std::uint32_t usual_mode_ = 0600;              // of the regular file before: new ones are made with it, as most have the same
  // The node: where it is, and itself if it is a file or a directory.
  bool has_node_ = false;
  std::string path_, name_;
  std::uint32_t type_ = 0;
  std::shared_ptr<Directory> directory_;
  Fd file_;
  // What is known of it.
  bool is_new_ = false;                         // the record of the node has made it
  bool has_xattrs_ = false;                     // some of the stream
  std::uint64_t size_ = 0;                      // of a new one: as far as its data goes
  std::optional<std::uint32_t> mode_, flags_;   // permissions, and those of chattr(1)
};

}  // namespace lsmfs::cli
