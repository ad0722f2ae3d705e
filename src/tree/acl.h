// POSIX access control lists, as bytes and as lists of entries.
//
// The kernel checks permissions by them; it leaves to the file system that the access list and the
// permission bits agree, and that what is made in a directory inherits its default list. What it is
// not: it knows no inodes. The rules are those of acl(5) and of the kernel's fs/posix_acl.c.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lsmfs::acl {

// The extended attributes that hold the two lists of an inode.
inline constexpr std::string_view kAccess = "system.posix_acl_access";
inline constexpr std::string_view kDefault = "system.posix_acl_default";  // directories only

inline bool is_name(std::string_view xattr) { return xattr == kAccess || xattr == kDefault; }

struct Entry {
  std::uint16_t tag = 0;   // ACL_USER_OBJ ... of linux/posix_acl.h
  std::uint16_t perm = 0;  // rwx
  std::uint32_t id = 0;    // of the user or group that ACL_USER and ACL_GROUP name
  friend bool operator==(const Entry&, const Entry&) = default;
};
using List = std::vector<Entry>;

// The form of linux/posix_acl_xattr.h. Untrusted bytes: nullopt unless it is a list by the rules, whose
// entries come in order, with a mask if it names users or groups.
std::optional<List> decode(std::string_view value);
std::string encode(const List& list);

// The rest must hold: the list is one by the rules.
bool is_minimal(const List& list);  // it says no more than permission bits can
// `mode` with the permission bits that a list gives; those of the group are the mask's, if there is one.
std::uint32_t with_permissions(std::uint32_t mode, const List& list);
void change_mode(List& list, std::uint32_t mode);  // chmod: the list follows the permission bits
// Makes a default list the access list of an inode that is made with `mode`, and gives the mode that this leaves.
std::uint32_t inherit(List& list, std::uint32_t mode);

}  // namespace lsmfs::acl
