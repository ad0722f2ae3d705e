// Extended attributes. Small values are in the inode's record, so that they come with it; large ones
// have rows of their own under the inode's home, and the record knows their sizes.
#include <fmt/format.h>
#include <sys/xattr.h>

#include <algorithm>

#include "tree/lsm_tree.h"

namespace lsmfs {
namespace {

Result<void> check_name(std::string_view name) {
  if (name.empty() || name.find('\0') != name.npos) return make_error(EINVAL, "");
  if (name.size() > kXattrNameMax) return make_error(ERANGE, "");
  return {};
}

}  // namespace

Result<std::string> LsmTree::getxattr(Ino ino, std::string_view name, Wait wait) {
  LSMFS_TRY(check_name(name));
  LSMFS_ASSIGN(const Lock lock, acquire(wait));
  LSMFS_ASSIGN(const Inode* inode, find(ino));
  const Xattr* xattr = inode->record.find_xattr(name);
  if (!xattr) return make_error(ENODATA, "");
  if (xattr->row_size == 0) return xattr->value;
  LSMFS_TRY(settle(lock, inode->xattrs_group, wait));
  LSMFS_ASSIGN(auto value, store_.get(Family::names, keys::xattr(inode->home(), name), wait));
  if (!value || value->size() != xattr->row_size) {
    return make_error(EUCLEAN, fmt::format("the row of an extended attribute of inode {} is damaged", ino.v));
  }
  return std::move(*value);
}

Result<void> LsmTree::setxattr(Ino ino, std::string_view name, std::string_view value, int flags, Wait wait) {
  LSMFS_TRY(check_name(name));
  if (value.size() > kXattrSizeMax) return make_error(E2BIG, "");
  if (flags & ~(XATTR_CREATE | XATTR_REPLACE)) return make_error(EINVAL, "");
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * inode, find(ino));
  Record& record = inode->record;
  const Xattr* old = record.find_xattr(name);
  if (old && (flags & XATTR_CREATE)) return make_error(EEXIST, "");
  if (!old && (flags & XATTR_REPLACE)) return make_error(ENODATA, "");
  // What listxattr gives must fit into what it can give.
  if (!old && record.xattr_names_size() + name.size() + 1 > kXattrListMax) return make_error(ENOSPC, "");
  LSMFS_TRY(need_room(value.size() + kRecordRoom));

  const std::size_t others = record.xattr_inline_size() - (old ? old->value.size() : 0);
  const bool in_record = value.size() <= kXattrInlineMax && others + value.size() <= kXattrInlineSum;
  const std::string key = keys::xattr(inode->home(), name);
  if (!in_record) {
    batch().put(Family::names, key, value);
  } else if (old && old->row_size > 0) {
    batch().erase(Family::names, key);
  }
  Xattr xattr{std::string(name), in_record ? std::string(value) : std::string(),
              in_record ? 0 : static_cast<std::uint32_t>(value.size())};
  record.set_xattr(std::move(xattr));
  record.ctime = Time::now();
  inode->xattrs_group = open_->number;
  changed(*inode);
  return {};
}

Result<void> LsmTree::removexattr(Ino ino, std::string_view name, Wait wait) {
  LSMFS_TRY(check_name(name));
  LSMFS_ASSIGN(const Lock lock, acquire_for_change(wait));
  LSMFS_ASSIGN(Inode * inode, find(ino));
  const Xattr* xattr = inode->record.find_xattr(name);
  if (!xattr) return make_error(ENODATA, "");
  if (xattr->row_size > 0) batch().erase(Family::names, keys::xattr(inode->home(), name));
  inode->record.remove_xattr(name);
  inode->record.ctime = Time::now();
  inode->xattrs_group = open_->number;
  changed(*inode);
  return {};
}

Result<std::string> LsmTree::listxattr(Ino ino, Wait wait) {
  LSMFS_ASSIGN(const Lock lock, acquire(wait));
  LSMFS_ASSIGN(const Inode* inode, find(ino));
  std::string names;
  for (const Xattr& xattr : inode->record.xattrs) names.append(xattr.name).push_back('\0');
  return names;
}

void LsmTree::erase_xattr_rows(Inode& inode) {
  for (const Xattr& xattr : inode.record.xattrs) {
    if (xattr.row_size > 0) batch().erase(Family::names, keys::xattr(inode.home(), xattr.name));
  }
  inode.record.xattrs.clear();
}

}  // namespace lsmfs
