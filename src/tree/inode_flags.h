// What may not change: EROFS in snapshots; else EPERM where flags of inodes (chattr(1)) forbid it, by the rules of the kernel's fs/namei.c and
// fs/attr.c.
//
// For its own file systems the kernel checks the flags before it calls. Those of FUSE inodes it does not know.
#pragma once

#include "tree/inode_table.h"

namespace lsmfs {

inline Result<void> permit(const Inode& inode, bool permitted) {
  if (inode.read_only) return make_error(EROFS, "");
  if (!permitted) return make_error(EPERM, "");
  return {};
}

inline bool is_fixed(const Record& record) { return record.is_immutable() || record.is_append_only(); }

inline Result<void> may_change(const Inode& inode) { return permit(inode, !is_fixed(inode.record)); }
// The kernel removes a file's capabilities in this way before a write, and does not say so.
inline Result<void> may_remove_xattr(const Inode& inode, std::string_view name) {
  return name == "security.capability" ? permit(inode, !inode.record.is_immutable()) : may_change(inode);
}
inline Result<void> may_name_in(const Inode& directory) { return permit(directory, !directory.record.is_immutable()); }
// What comes to the directory of snapshots is nothing but snapshots.
inline Result<void> may_add_to(const Inode& directory) {
  if (directory.ino() == kSnapshotsIno) return make_error(EROFS, "");
  return may_name_in(directory);
}
// A snapshot itself is taken away as what is not one, and whatever is fixed in it: nobody could change that before.
inline Result<void> may_remove(const Inode& directory, const Inode& inode) {
  if (inode.is_top()) return make_error(EBUSY, "");
  return permit(directory, !is_fixed(directory.record) && (inode.read_only || !is_fixed(inode.record)));
}
// What is append-only takes nothing but bytes at its end.
inline Result<void> may_write(const Inode& inode, std::uint64_t offset) {
  const Record& record = inode.record;
  return permit(inode, !record.is_immutable() && (!record.is_append_only() || offset == record.size));
}
inline Result<void> may_allocate(const Inode& inode, bool changes_data) {
  return permit(inode, !inode.record.is_immutable() && (!inode.record.is_append_only() || !changes_data));
}
inline Result<void> may_set(const Inode& inode, const AttrChange& change) {
  const Record& record = inode.record;
  if (change.flags || change.settles) return permit(inode, true);
  const bool explicit_times = (change.atime || change.mtime) && !change.touches;
  const bool refused_to_append_only = change.mode || change.uid || change.gid || change.size || explicit_times;
  return permit(inode, !record.is_immutable() && !(record.is_append_only() && refused_to_append_only));
}

}  // namespace lsmfs
