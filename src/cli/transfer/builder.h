// Does what the records of a stream say, to a tree that nobody else works in.
//
// Whatever records say, nothing outside of that tree is touched: no link is followed, and no path leads up (beneath.h). All that was done can be
// done once more, from any record on from which all later ones are done again.
//
// What it is not: it reads no streams, checks no sums, and keeps nothing of how far it is (receiving.h).
#pragma once

#include <string>

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

  Result<const Fd*> parent(const std::string& path);
  Result<void> open_node(const std::string& path, bool to_write);
  Result<void> own(std::uint32_t uid, std::uint32_t gid);
  template <class Do>
  int unlocked(const Fd& parent, const std::string& name, const Do& act);
  std::string at() const;  // a path to the node itself

  const Fd &tree_, &moved_;
  std::string parent_path_;
  Fd parent_;
  // The node: where it is, and itself if it is a file or a directory.
  bool has_node_ = false;
  bool is_new_ = false;  // the record of the node has made it
  std::string path_, name_;
  std::uint32_t type_ = 0;
  Fd directory_, file_;
};

}  // namespace lsmfs::cli
