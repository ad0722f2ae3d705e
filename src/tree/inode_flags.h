// What the flags of inodes (chattr(1)) forbid: EPERM, by the rules of the kernel's fs/namei.c and fs/attr.c.
//
// For its own file systems the kernel checks them before it calls. Those of FUSE inodes it does not know.
#pragma once

#include "tree/record.h"

namespace lsmfs {

inline Result<void> permit(bool permitted) {
  if (!permitted) return make_error(EPERM, "");
  return {};
}

inline bool is_fixed(const Record& record) { return record.is_immutable() || record.is_append_only(); }

inline Result<void> may_change(const Record& record) { return permit(!is_fixed(record)); }
// The kernel removes a file's capabilities in this way before a write, and does not say so.
inline Result<void> may_remove_xattr(const Record& record, std::string_view name) {
  return name == "security.capability" ? permit(!record.is_immutable()) : may_change(record);
}
inline Result<void> may_add_to(const Record& directory) { return permit(!directory.is_immutable()); }
inline Result<void> may_remove(const Record& directory, const Record& record) {
  return permit(!is_fixed(directory) && !is_fixed(record));
}
// What is append-only takes nothing but bytes at its end.
inline Result<void> may_write(const Record& record, std::uint64_t offset) {
  return permit(!record.is_immutable() && (!record.is_append_only() || offset == record.size));
}
inline Result<void> may_allocate(const Record& record, bool changes_data) {
  return permit(!record.is_immutable() && (!record.is_append_only() || !changes_data));
}
inline Result<void> may_set(const Record& record, const AttrChange& change) {
  if (change.flags || change.settles) return {};
  if (record.is_immutable()) return permit(false);
  const bool explicit_times = (change.atime || change.mtime) && !change.touches;
  return permit(!record.is_append_only() || !(change.mode || change.uid || change.gid || change.size || explicit_times));
}

}  // namespace lsmfs
