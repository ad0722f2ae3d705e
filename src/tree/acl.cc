#include "tree/acl.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>

#include <algorithm>

#include "lsmfs/base.h"

namespace lsmfs::acl {
namespace {

constexpr std::uint16_t kAllPermissions = ACL_READ | ACL_WRITE | ACL_EXECUTE;
constexpr std::uint32_t kPermissionBits = 0777;
constexpr std::uint32_t kNoId = ACL_UNDEFINED_ID;

bool names_somebody(const Entry& entry) { return entry.tag == ACL_USER || entry.tag == ACL_GROUP; }

bool follows_the_rules(const List& list) {
  const auto count = [&](std::uint16_t tag) {
    return std::count_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.tag == tag; });
  };
  // The tags' numbers are in the order that is required.
  const bool ordered = std::is_sorted(list.begin(), list.end(), [](const Entry& a, const Entry& b) { return a.tag < b.tag; });
  const bool sound = std::all_of(list.begin(), list.end(), [](const Entry& entry) {
    return entry.perm <= kAllPermissions && (!names_somebody(entry) || entry.id != kNoId);
  });
  const bool needs_mask = std::any_of(list.begin(), list.end(), names_somebody);
  const auto masks = count(ACL_MASK);
  const auto known = count(ACL_USER_OBJ) + count(ACL_USER) + count(ACL_GROUP_OBJ) + count(ACL_GROUP) + masks + count(ACL_OTHER);
  return ordered && sound && count(ACL_USER_OBJ) == 1 && count(ACL_GROUP_OBJ) == 1 && count(ACL_OTHER) == 1 && masks <= 1 &&
         masks >= needs_mask && known == std::ssize(list);
}

Entry& entry_of(List& list, std::uint16_t tag) {
  return *std::find_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.tag == tag; });
}

// The entry that the permission bits of the group stand for.
Entry& group_class(List& list) {
  const bool masked = std::any_of(list.begin(), list.end(), [](const Entry& entry) { return entry.tag == ACL_MASK; });
  return entry_of(list, masked ? ACL_MASK : ACL_GROUP_OBJ);
}

}  // namespace

std::optional<List> decode(std::string_view value) {
  Reader in(value);
  if (in.le32() != POSIX_ACL_XATTR_VERSION) return std::nullopt;
  List list;
  while (in.ok() && !in.at_end()) {
    Entry entry;
    entry.tag = in.le16();
    entry.perm = in.le16();
    entry.id = in.le32();
    if (!names_somebody(entry)) entry.id = kNoId;
    list.push_back(entry);
  }
  if (!in.ok() || !follows_the_rules(list)) return std::nullopt;
  return list;
}

std::string encode(const List& list) {
  std::string out;
  put_le32(out, POSIX_ACL_XATTR_VERSION);
  for (const Entry& entry : list) {
    put_le16(out, entry.tag);
    put_le16(out, entry.perm);
    put_le32(out, entry.id);
  }
  return out;
}

bool is_minimal(const List& list) { return list.size() == 3; }

std::uint32_t with_permissions(std::uint32_t mode, const List& list) {
  List copy = list;
  const std::uint32_t permissions = static_cast<std::uint32_t>(entry_of(copy, ACL_USER_OBJ).perm) << 6 |
                                    static_cast<std::uint32_t>(group_class(copy).perm) << 3 | entry_of(copy, ACL_OTHER).perm;
  return (mode & ~kPermissionBits) | permissions;
}

void change_mode(List& list, std::uint32_t mode) {
  entry_of(list, ACL_USER_OBJ).perm = mode >> 6 & kAllPermissions;
  group_class(list).perm = mode >> 3 & kAllPermissions;
  entry_of(list, ACL_OTHER).perm = mode & kAllPermissions;
}

std::uint32_t inherit(List& list, std::uint32_t mode) {
  change_mode(list, mode & with_permissions(kPermissionBits, list));
  return with_permissions(mode, list);
}

}  // namespace lsmfs::acl
