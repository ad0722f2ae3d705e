#include "fuse/serving/permission.h"

#include <sys/stat.h>

#include <optional>

namespace lsmfs {
namespace {

constexpr std::uint32_t kWanted = 3;  // to write and to execute, of three bits

bool grants(std::uint32_t bits) { return (bits & kWanted) == kWanted; }

// Tags of linux/posix_acl.h.
enum Tag : std::uint16_t { kUser = 0x02, kGroupObject = 0x04, kGroup = 0x08, kMask = 0x10 };

struct AclEntry {
  std::uint16_t tag, bits;
  std::uint32_t id;
};

// Calls `visit` with each entry of a list in the form of linux/posix_acl_xattr.h.
template <class Visit>
void each_entry(std::string_view list, Visit visit) {
  constexpr std::size_t kHeader = 4, kEntry = 8;
  for (std::size_t at = kHeader; at + kEntry <= list.size(); at += kEntry) {
    Reader in(list.substr(at, kEntry));
    const std::uint16_t tag = in.le16(), bits = in.le16();
    visit(AclEntry{tag, bits, in.le32()});
  }
}

}  // namespace

// The owner and everybody else have the bits of the mode, with a list or without; a list is about users and groups that it names.
bool may_write_in(const Attr& directory, std::string_view list, const Asker& asker) {
  if (asker.uid == directory.uid) return grants(directory.mode >> 6);
  const std::uint32_t others = directory.mode;
  if (list.empty()) return grants(asker.is_in_group(directory.gid) ? directory.mode >> 3 : others);
  std::uint32_t mask = 7;
  each_entry(list, [&](const AclEntry& entry) {
    if (entry.tag == kMask) mask = entry.bits;
  });
  std::optional<bool> by_user;
  bool in_some = false, by_group = false;
  each_entry(list, [&](const AclEntry& entry) {
    if (entry.tag == kUser && entry.id == asker.uid) by_user = grants(entry.bits & mask);
    if (entry.tag != kGroupObject && entry.tag != kGroup) return;
    if (!asker.is_in_group(entry.tag == kGroup ? entry.id : directory.gid)) return;
    in_some = true;
    by_group |= grants(entry.bits & mask);
  });
  return by_user.value_or(in_some ? by_group : grants(others));
}

bool may_remove_from(const Attr& directory, std::string_view list, uid_t owner, const Asker& asker) {
  if ((directory.mode & S_ISVTX) && asker.uid != owner && asker.uid != directory.uid) return false;
  return may_write_in(directory, list, asker);
}

}  // namespace lsmfs
