#include "cli/posix_acl.h"

#include <archive_entry.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cli/owners.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

struct AclEntry {
  std::uint16_t tag, permissions;
  std::uint32_t id;
  friend auto operator<=>(const AclEntry&, const AclEntry&) = default;
};

std::uint16_t tag_of(int tag) {
  switch (tag) {
    case ARCHIVE_ENTRY_ACL_USER_OBJ: return ACL_USER_OBJ;
    case ARCHIVE_ENTRY_ACL_USER: return ACL_USER;
    case ARCHIVE_ENTRY_ACL_GROUP_OBJ: return ACL_GROUP_OBJ;
    case ARCHIVE_ENTRY_ACL_GROUP: return ACL_GROUP;
    case ARCHIVE_ENTRY_ACL_MASK: return ACL_MASK;
    default: return ACL_OTHER;
  }
}

}  // namespace

std::string posix_acl(archive_entry* entry, int type, std::uint64_t& unknown) {
  if (archive_entry_acl_reset(entry, type) == 0) return "";
  std::vector<AclEntry> entries;
  int found_type = 0, permissions = 0, tag = 0, id = 0;
  const char* name = nullptr;
  while (archive_entry_acl_next(entry, type, &found_type, &permissions, &tag, &id, &name) == 0) {
    AclEntry each{.tag = tag_of(tag), .permissions = static_cast<std::uint16_t>(permissions & 7), .id = static_cast<std::uint32_t>(ACL_UNDEFINED_ID)};
    const std::string_view who = name ? name : "";
    if (each.tag == ACL_USER) each.id = user_id(who, id);
    if (each.tag == ACL_GROUP) each.id = group_id(who, id);
    if ((each.tag == ACL_USER || each.tag == ACL_GROUP) && each.id == static_cast<std::uint32_t>(ACL_UNDEFINED_ID)) {
      ++unknown;
      continue;
    }
    entries.push_back(each);
  }
  if (entries.empty()) return "";
  std::ranges::sort(entries);
  std::string acl;
  put_le32(acl, POSIX_ACL_XATTR_VERSION);
  for (const AclEntry& each : entries) {
    put_le16(acl, each.tag);
    put_le16(acl, each.permissions);
    put_le32(acl, each.id);
  }
  return acl;
}

}  // namespace lsmfs::cli
