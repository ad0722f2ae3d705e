#include "fuse/serving/directory_reply.h"

#include <sys/stat.h>

#include <cstring>

#include "fuse/serving/attributes.h"

namespace lsmfs {

bool DirectoryReply::add(const DirEntry& entry) {
  char name[kNameMax + 1];
  if (entry.name.size() > kNameMax) return true;  // nothing the kernel could take: leave it out
  std::memcpy(name, entry.name.data(), entry.name.size());
  name[entry.name.size()] = 0;

  char* to = reinterpret_cast<char*>(buffer_.data()) + used_;
  const std::size_t room = buffer_.size() - used_;
  const bool dots = entry.name == "." || entry.name == "..";
  const bool withholds = probes_ && entry.whole && !entry.held && !S_ISDIR(entry.attr.mode);
  const bool gives = entry.whole && !withholds;
  std::size_t size = 0;
  if (plus_) {
    fuse_entry_param param = to_entry(entry.attr);
    if (!gives) param.ino = 0;  // no lookup: the kernel keeps to what it knows
    size = fuse_add_direntry_plus(req_, to, room, name, &param, static_cast<off_t>(entry.next_cookie));
  } else {
    const struct stat attr = to_stat(entry.attr);
    size = fuse_add_direntry(req_, to, room, name, &attr, static_cast<off_t>(entry.next_cookie));
  }
  if (size > room) return false;
  used_ += size;
  if (withholds) withheld_ = entry.attr.ino;
  if (gives) looked_up_.push_back(entry.attr.ino);
  probes_ = probes_ && dots;
  return true;
}

}  // namespace lsmfs
