// The reply to READDIR and READDIRPLUS: packed entries in a buffer of the size the kernel asked for.
#pragma once

#include <optional>
#include <vector>

#include "fuse/transport/libfuse.h"
#include "lsmfs/tree.h"

namespace lsmfs {

class DirectoryReply {
 public:
  // `buffer` must outlive the reply. `probes`: the first entry goes without attributes, if it is a file that nobody holds on to.
  DirectoryReply(fuse_req_t req, MutableBytes buffer, bool plus, bool probes) : req_(req), buffer_(buffer), plus_(plus), probes_(probes) {}

  // False when it does not fit any more.
  bool add(const DirEntry& entry);

  Bytes bytes() const { return buffer_.first(used_); }
  // The inodes whose lookup count the kernel raises when it gets the reply.
  const std::vector<Ino>& looked_up() const { return looked_up_; }
  // The inode of the entry that went without; the tree has counted a lookup of it.
  std::optional<Ino> withheld() const { return withheld_; }

 private:
  fuse_req_t req_;
  MutableBytes buffer_;
  bool plus_, probes_;
  std::size_t used_ = 0;
  std::optional<Ino> withheld_;
  std::vector<Ino> looked_up_;
};

}  // namespace lsmfs
