// Extended attributes. Small values are in the inode's record, so that they come with it; large ones
// have rows of their own under the inode's home, and the record knows their sizes.
#include <fmt/format.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cassert>

#include "tree/inode_flags.h"
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
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<std::string> {
    LSMFS_ASSIGN(const Inode* inode, find(ino));
    const Xattr* xattr = inode->record.find_xattr(name);
    if (!xattr) return make_error(ENODATA, "");
    return xattr_value(lock, *inode, *xattr);
  });
}

Result<std::string> LsmTree::xattr_value(const Lock& lock, const Inode& inode, const Xattr& xattr) {
  if (xattr.row_size == 0) return xattr.value;
  const std::uint32_t size = xattr.row_size;
  LSMFS_TRY(settle(lock, inode.xattrs_group));
  LSMFS_ASSIGN(auto value, rows_.xattr(lock, inode.xattr_home(), xattr.name));
  if (!value || value->size() != size) {
    return make_error(EUCLEAN, fmt::format("the row of an extended attribute of inode {} is damaged", inode.ino().v));
  }
  return std::move(*value);
}

Result<void> LsmTree::setxattr(Ino ino, std::string_view name, std::string_view value, int flags, Wait wait) {
  LSMFS_TRY(check_name(name));
  if (value.size() > kXattrSizeMax) return make_error(E2BIG, "");
  if (flags & ~(XATTR_CREATE | XATTR_REPLACE)) return make_error(EINVAL, "");
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    Record& record = inode->record;
    LSMFS_TRY(may_change(*inode));
    const Xattr* old = record.find_xattr(name);
    if (old && (flags & XATTR_CREATE)) return make_error(EEXIST, "");
    if (!old && (flags & XATTR_REPLACE)) return make_error(ENODATA, "");
    // What is there already is not set again: no record is written, and the time of change stays.
    if (old && old->row_size == 0 && old->value == value) return {};
    // What listxattr gives must fit into what it can give.
    if (!old && record.xattr_names_size() + name.size() + 1 > kXattrListMax) return make_error(ENOSPC, "");
    const std::size_t old_size = old ? std::max<std::size_t>(old->row_size, old->value.size()) : 0;
    if (!old || value.size() > old_size) LSMFS_TRY(value.size() <= kXattrInlineMax ? need_room_for_names(kRecordRoom) : need_room(value.size()));

    LSMFS_TRY(own_row(lock, *inode));
    bool kept = true;
    const std::uint32_t mode = record.mode;
    if (acl::is_name(name)) {
      const auto list = acl::decode(value);
      if (!list) return make_error(EINVAL, "");
      if (name == acl::kDefault && !record.is_directory()) return make_error(EACCES, "");
      if (name == acl::kAccess) {
        record.mode = acl::with_permissions(record.mode, *list);
        kept = !acl::is_minimal(*list);  // the mode says it all
      }
    }
    if (kept) {
      put_xattr(*inode, name, value);
    } else if (old) {
      drop_xattr(*inode, name);
    } else if (record.mode == mode) {
      return {};
    }
    record.ctime = Time::now(clock_);
    changed(*inode);
    tell(*inode);
    return {};
  });
}

// The value goes into the record if there is room, else into a row. The record is the caller's to save.
void LsmTree::put_xattr(Inode& inode, std::string_view name, std::string_view value) {
  Record& record = inode.record;
  const Xattr* old = record.find_xattr(name);
  const std::size_t others = record.xattr_inline_size() - (old ? old->value.size() : 0);
  const bool in_record = value.size() <= kXattrInlineMax && others + value.size() <= kXattrInlineSum;
  if (!in_record) {
    rows_.put_xattr(inode.home(), name, value);
  } else if (old && old->row_size > 0) {
    rows_.erase_xattr(inode.home(), name);
  }
  Xattr xattr{std::string(name), in_record ? std::string(value) : std::string(),
              in_record ? 0 : static_cast<std::uint32_t>(value.size())};
  record.set_xattr(std::move(xattr));
  inode.xattrs_group = open_group().number;
}

// Must hold: there is one of that name.
void LsmTree::drop_xattr(Inode& inode, std::string_view name) {
  const Xattr* const there = inode.record.find_xattr(name);
  assert(there);
  if (there->row_size > 0) rows_.erase_xattr(inode.home(), name);
  inode.record.remove_xattr(name);
  inode.xattrs_group = open_group().number;
}

Result<void> LsmTree::removexattr(Ino ino, std::string_view name, Wait wait) {
  LSMFS_TRY(check_name(name));
  return attempt(wait, [&](Lock& lock) LSMFS_LOCKED -> Result<void> {
    LSMFS_TRY(begin_change(lock, wait));
    LSMFS_ASSIGN(Inode * inode, find(ino));
    LSMFS_TRY(may_remove_xattr(*inode, name));
    if (!inode->record.find_xattr(name)) {
      if (acl::is_name(name)) return {};
      return make_error(ENODATA, "");
    }
    LSMFS_TRY(own_row(lock, *inode));
    drop_xattr(*inode, name);
    inode->record.ctime = Time::now(clock_);
    changed(*inode);
    tell(*inode);
    return {};
  });
}

Result<std::string> LsmTree::listxattr(Ino ino, Wait wait) {
  return attempt(wait, [&](const Lock&) LSMFS_LOCKED -> Result<std::string> {
    LSMFS_ASSIGN(const Inode* inode, find(ino));
    std::string names;
    for (const Xattr& xattr : inode->record.xattrs) names.append(xattr.name).push_back('\0');
    return names;
  });
}

void LsmTree::erase_xattr_rows(Inode& inode) {
  for (const Xattr& xattr : inode.record.xattrs) {
    if (xattr.row_size > 0) rows_.erase_xattr(inode.home(), xattr.name);
  }
  inode.record.xattrs.clear();
}

// ---- access control lists

// nullopt: it has none.
Result<std::optional<acl::List>> LsmTree::load_acl(const Lock& lock, const Inode& inode, std::string_view name) {
  const Xattr* xattr = inode.record.find_xattr(name);
  if (!xattr) return std::optional<acl::List>();
  LSMFS_ASSIGN(const std::string value, xattr_value(lock, inode, *xattr));
  auto list = acl::decode(value);
  if (!list) return make_error(EUCLEAN, fmt::format("the access control list of inode {} is damaged", inode.ino().v));
  return list;
}

Result<LsmTree::Inherited> LsmTree::inherit(const Lock& lock, const Inode& dir, const NewInode& what) {
  if (state_.next_ino >= kSnapshotsIno) return make_error(ENOSPC, "");  // no number is left
  Inherited inherited;
  inherited.mode = what.mode & (S_IFMT | 07777);
  if (S_ISLNK(what.mode)) return inherited;
  std::optional<acl::List> list;
  if (what.inherits_acl) {
    LSMFS_ASSIGN(list, load_acl(lock, dir, acl::kDefault));
  }
  if (!list) {
    inherited.mode &= ~(what.umask & 0777);
    return inherited;
  }
  if (S_ISDIR(what.mode)) inherited.defaults = acl::encode(*list);
  inherited.mode = acl::inherit(*list, inherited.mode);
  if (!acl::is_minimal(*list)) inherited.access = acl::encode(*list);
  return inherited;
}

}  // namespace lsmfs
