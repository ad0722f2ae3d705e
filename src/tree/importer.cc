// The tree that a stream of records tells of, made entry by entry. One directory after the other is worked in, so where a path leads is known
// from the entry before, and each directory gets its times when it is left.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "tree/acl.h"
#include "tree/import_records.h"

namespace lsmfs {
namespace {

constexpr std::string_view kCapability = "security.capability";
constexpr std::uint64_t kInBulkBelow = 4 * MiB;  // else it is a stream
constexpr std::uint32_t kNobody = UINT32_MAX;  // to chown(2): leave it

std::string_view without_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? std::string_view() : path.substr(0, slash);
}
std::string_view name_in(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// The first component, which is taken away.
std::string_view take_component(std::string_view& path) {
  const std::string_view first = path.substr(0, path.find('/'));
  path.remove_prefix(std::min(first.size() + 1, path.size()));
  return first;
}

// Whether each component can be the name of an entry. How long it may be the tree knows.
bool is_relative_path(std::string_view path) {
  if (path.empty()) return true;
  if (path.ends_with('/') || path.find('\0') != path.npos) return false;
  while (!path.empty()) {
    const std::string_view name = take_component(path);
    if (name.empty() || name == "." || name == "..") return false;
  }
  return true;
}

// As the kernel, which is not asked here.
Result<void> may_set_xattr(const ImportedInode& inode, std::string_view name, const Importing& who) {
  if (acl::is_name(name)) {
    if (S_ISLNK(inode.mode)) return make_error(EOPNOTSUPP, inode.path);
    return {};
  }
  if (name.starts_with("user.")) {
    if (!S_ISREG(inode.mode) && !S_ISDIR(inode.mode)) return make_error(EPERM, inode.path);
    return {};
  }
  if (!name.starts_with("trusted.") && !name.starts_with("security.")) return make_error(EOPNOTSUPP, inode.path);
  const bool may = who.as_root && (name == kCapability ? who.capabilities : who.trusted);
  return may ? Result<void>() : make_error(EPERM, inode.path);
}

}  // namespace

Importer::Importer(Tree& tree, Ino top, const Importing& who) : tree_(tree), who_(who) { stack_.push_back({.ino = top, .name = "", .mtime = std::nullopt}); }

Importer::~Importer() {
  if (file_) tree_.forget(file_->ino, 1);
  for (std::size_t i = 1; i < stack_.size(); ++i) tree_.forget(stack_[i].ino, 1);
}

Result<void> Importer::feed(Bytes bytes) {
  if (failed_) return *failed_;
  // Most records lie in `bytes` as a whole.
  std::string_view text = as_text(bytes);
  const bool together = !rest_.empty();
  if (together) {
    rest_ += text;
    text = rest_;
  }
  while (text.size() >= kRecordHeader) {
    const std::uint32_t size = Reader(text).le32();
    if (size == 0 || size > kImportFrameMax) return failed_.emplace(make_error(EINVAL, ""));
    if (text.size() < kRecordHeader + size) break;
    if (auto fed = feed_record(text.substr(kRecordHeader, size)); !fed) return failed_.emplace(std::move(fed.error()));
    text.remove_prefix(kRecordHeader + size);
  }
  if (together) rest_.erase(0, rest_.size() - text.size());
  else rest_ = text;
  return {};
}

Result<void> Importer::feed_record(std::string_view body) {
  if (static_cast<std::uint8_t>(body.front()) == kDataRecord) {
    const auto data = decode_data(body);
    if (!data) return make_error(EINVAL, "");
    return write(data->offset, data->bytes);
  }
  auto inode = decode_inode(body);
  if (!inode) return make_error(EINVAL, "");
  LSMFS_TRY(finish_file());
  if (!is_relative_path(inode->path)) return make_error(EINVAL, inode->path);
  return make(*std::move(inode));
}

Result<ImportCounts> Importer::finish() {
  const auto finished = [&]() -> Result<void> {
    if (failed_) return *failed_;
    if (!rest_.empty()) return make_error(EINVAL, "");
    LSMFS_TRY(finish_file());
    LSMFS_TRY(end_bulk());
    while (stack_.size() > 1) LSMFS_TRY(leave());
    if (stack_.front().mtime) {
      AttrChange times;
      times.mtime = stack_.front().mtime;
      const auto set = tree_.setattr(stack_.front().ino, times, Wait::yes);
      if (!set) return make_error(set.error().code, "");
    }
    return {};
  }();
  if (!finished) return failed_.emplace(finished.error());
  return counts_;
}

// Goes to the directory of this path, and makes what is missing on the way.
Result<void> Importer::enter(std::string_view path) {
  std::string_view rest = path;
  std::size_t depth = 1;
  for (; depth < stack_.size() && !rest.empty(); ++depth) {
    std::string_view further = rest;
    if (take_component(further) != stack_[depth].name) break;
    rest = further;
  }
  while (stack_.size() > depth) LSMFS_TRY(leave());
  while (!rest.empty()) {
    const std::string_view name = take_component(rest);
    const auto explained = [&](int code) { return make_error(code, std::string(path.substr(0, static_cast<std::size_t>(name.data() + name.size() - path.data())))); };
    const auto found = tree_.lookup(here().ino, name, Wait::yes);
    if (!found) return explained(found.error().code);
    if (*found) {
      if (!S_ISDIR((*found)->mode)) {
        tree_.forget((*found)->ino, 1);
        return explained(ENOTDIR);
      }
      stack_.push_back({.ino = (*found)->ino, .name = std::string(name), .mtime = (*found)->mtime});
      continue;
    }
    const NewInode directory{.mode = S_IFDIR | (0777 & ~who_.umask), .inherits_acl = false, .uid = who_.uid, .gid = who_.gid};
    const auto made = with_room(tree_, [&] { return tree_.make(here().ino, name, directory, Wait::yes); });
    if (!made) return explained(made.error().code);
    here().changed = true;
    stack_.push_back({.ino = made->ino, .name = std::string(name), .mtime = std::nullopt});
  }
  return {};
}

// The directory that the last entry was in is done with, for now.
Result<void> Importer::leave() {
  const Directory directory = std::move(stack_.back());
  stack_.pop_back();
  Result<Attr> set = Attr{};
  if (directory.mtime && directory.changed) {
    AttrChange times;
    times.mtime = directory.mtime;
    set = with_room(tree_, [&] { return tree_.setattr(directory.ino, times, Wait::yes); });
  }
  tree_.forget(directory.ino, 1);
  if (!set) return make_error(set.error().code, directory.name);
  return {};
}

Result<void> Importer::make(ImportedInode inode) {
  if (inode.path.empty()) return set_top(inode);
  if (inode.is_link) return make_link(inode);
  switch (inode.mode & S_IFMT) {
    case S_IFCHR: case S_IFBLK:
      if (!who_.as_root || !who_.devices) return make_error(EPERM, inode.path);
      break;
    case S_IFREG: case S_IFDIR: case S_IFLNK: case S_IFIFO: case S_IFSOCK: break;
    default: return make_error(EINVAL, inode.path);
  }
  for (const auto& [name, value] : inode.xattrs) LSMFS_TRY(may_set_xattr(inode, name, who_));
  if (!who_.as_root) {
    inode.uid = who_.uid;
    inode.gid = who_.gid;
  }
  if (inode.uid == kNobody || inode.gid == kNobody) return make_error(EINVAL, inode.path);
  LSMFS_TRY(enter(without_name(inode.path)));
  const std::string_view name = name_in(inode.path);
  auto made = make_new(inode, name);
  bool is_new = made.has_value();
  if (!made && made.error().code == EEXIST) {
    const auto there = tree_.lookup(here().ino, name, Wait::yes);
    if (!there) return make_error(there.error().code, inode.path);
    if (*there && S_ISDIR((*there)->mode) && S_ISDIR(inode.mode)) {
      made = **there;
    } else {
      if (*there) LSMFS_TRY(take_away(inode.path, **there));
      made = make_new(inode, name);
      is_new = made.has_value();
    }
  }
  if (!made) return make_error(made.error().code, inode.path);
  here().changed |= is_new;
  const auto set = set_attributes(inode, *made);
  if (!set) {
    tree_.forget(made->ino, 1);
    return make_error(set.error().code, inode.path);
  }
  if (S_ISDIR(inode.mode)) {
    counts_.directories += is_new;
    stack_.push_back({.ino = made->ino, .name = std::string(name), .mtime = inode.mtime});
  } else if (S_ISREG(inode.mode)) {
    ++counts_.files;
    const bool in_bulk = in_bulk_ && inode.size < kInBulkBelow;
    file_ = File{.ino = made->ino, .path = std::move(inode.path), .size = inode.size, .in_bulk = in_bulk, .atime = inode.atime, .mtime = inode.mtime};
  } else {
    ++counts_.others;
    tree_.forget(made->ino, 1);
  }
  return {};
}

Result<Attr> Importer::make_new(const ImportedInode& inode, std::string_view name) {
  const NewInode made{.mode = inode.mode, .inherits_acl = false, .uid = inode.uid, .gid = inode.gid, .rdev = inode.rdev, .symlink = inode.target};
  return with_room(tree_, [&] { return tree_.make(here().ino, name, made, Wait::yes); });
}

// What an entry takes the place of. What is not empty stays, and is an error.
Result<void> Importer::take_away(const std::string& path, const Attr& there) {
  LSMFS_TRY(end_bulk());
  const std::string_view name = name_in(path);
  const auto taken = S_ISDIR(there.mode) ? tree_.rmdir(here().ino, name, Wait::yes) : tree_.unlink(here().ino, name, Wait::yes);
  tree_.forget(there.ino, 1);
  if (!taken) return make_error(taken.error().code, path);
  return {};
}

// What was written so far is there as if it had been written otherwise, and so is what comes.
Result<void> Importer::end_bulk() {
  if (!std::exchange(in_bulk_, false)) return {};
  const auto settled = tree_.settle_staged(stack_.front().ino);
  if (!settled) return make_error(settled.error().code, "");
  return {};
}

// Of the directory in which it was made nothing counts but a group that this hands on: no access control list is inherited.
Result<void> Importer::set_attributes(const ImportedInode& inode, const Attr& made) {
  AttrChange change;
  std::uint32_t mode = inode.mode & 07777;
  if (who_.as_root) {
    if (made.uid != inode.uid) change.uid = inode.uid;
    if (made.gid != inode.gid) change.gid = inode.gid;
  } else {
    if (!(made.gid == who_.gid && who_.is_member) && !S_ISDIR(inode.mode)) mode &= ~static_cast<std::uint32_t>(S_ISGID);
    if (S_ISDIR(inode.mode)) mode |= made.mode & S_ISGID;
  }
  if ((made.mode & 07777) != mode) change.mode = mode;
  // A file has its times when its data has come.
  if (!S_ISREG(inode.mode)) {
    change.atime = inode.atime;
    change.mtime = inode.mtime;
  }
  if (change.mode || change.uid || change.gid || change.atime || change.mtime) {
    const auto set = with_room(tree_, [&] { return tree_.setattr(made.ino, change, Wait::yes); });
    if (!set) return set.error();
  }
  return set_xattrs(inode, made.ino);  // last: an access control list says more than the mode
}

Result<void> Importer::set_xattrs(const ImportedInode& inode, Ino ino) {
  for (const auto& xattr : inode.xattrs) {  // name and value
    LSMFS_TRY(with_room(tree_, [&] { return tree_.setxattr(ino, xattr.first, xattr.second, 0, Wait::yes); }));
  }
  return {};
}

Result<void> Importer::set_top(const ImportedInode& inode) {
  if (!S_ISDIR(inode.mode) || inode.is_link) return make_error(ENOTDIR, "");
  for (const auto& [name, value] : inode.xattrs) LSMFS_TRY(may_set_xattr(inode, name, who_));
  if (who_.as_root && (inode.uid == kNobody || inode.gid == kNobody)) return make_error(EINVAL, "");
  while (stack_.size() > 1) LSMFS_TRY(leave());
  LSMFS_ASSIGN(const Attr made, tree_.getattr(here().ino, Wait::yes));
  const auto set = set_attributes(inode, made);
  if (!set) return make_error(set.error().code, "");
  here().mtime = inode.mtime;
  return {};
}

Result<void> Importer::make_link(const ImportedInode& inode) {
  if (!is_relative_path(inode.target)) return make_error(EINVAL, inode.target);
  if (inode.target == inode.path) return {};
  LSMFS_ASSIGN(const Ino target, find(inode.target));
  const auto linked = [&]() -> Result<void> {
    LSMFS_TRY(enter(without_name(inode.path)));
    const std::string_view name = name_in(inode.path);
    auto made = with_room(tree_, [&] { return tree_.link(target, here().ino, name, Wait::yes); });
    if (!made && made.error().code == EEXIST) {
      const auto there = tree_.lookup(here().ino, name, Wait::yes);
      if (!there) return make_error(there.error().code, inode.path);
      if (*there && (*there)->ino == target) {
        tree_.forget(target, 1);
        return {};
      }
      if (*there) LSMFS_TRY(take_away(inode.path, **there));
      made = with_room(tree_, [&] { return tree_.link(target, here().ino, name, Wait::yes); });
    }
    if (!made) return make_error(made.error().code, inode.path);
    tree_.forget(target, 1);
    here().changed = true;
    ++counts_.files;
    return {};
  }();
  tree_.forget(target, 1);
  return linked;
}

// The inode of a path that is there, which the caller has to forget.
Result<Ino> Importer::find(std::string_view path) {
  Ino at = stack_.front().ino;
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view name = take_component(rest);
    const auto found = tree_.lookup(at, name, Wait::yes);
    if (at != stack_.front().ino) tree_.forget(at, 1);
    if (!found || !*found) return make_error(found ? ENOENT : found.error().code, std::string(path));
    at = (*found)->ino;
  }
  if (at == stack_.front().ino) return make_error(EPERM, std::string(path));  // a directory has no second name
  return at;
}

Result<void> Importer::write(std::uint64_t offset, std::string_view data) {
  if (!file_ || offset < file_->end) return make_error(EINVAL, file_ ? file_->path : "");
  if (file_->in_bulk) {
    LSMFS_TRY(write_in_bulk(offset, data));
  } else {
    const auto written = with_room(tree_, [&] { return tree_.write(file_->ino, ByteOffset{offset}, as_bytes(data), Wait::yes, ChangeTime::stays); });
    if (!written) return make_error(written.error().code, file_->path);
  }
  file_->end = offset + data.size();
  counts_.bytes += data.size();
  return {};
}

// A block is written once: the last one when it is complete, or the file.
Result<void> Importer::write_in_bulk(std::uint64_t offset, std::string_view data) {
  std::string& block = file_->block;
  std::uint64_t begin = round_down(file_->end, kBlockSize);  // of `block`
  if (!block.empty() && offset >= begin + kBlockSize) {
    block.resize(kBlockSize);
    LSMFS_TRY(put_in_bulk(begin, block));
    block.clear();
  }
  if (block.empty()) begin = round_down(offset, kBlockSize);
  if (const std::uint64_t at = offset - begin; at > 0 || !block.empty()) {
    block.resize(at);
    const std::size_t more = std::min(data.size(), kBlockSize - at);
    block += data.substr(0, more);
    data.remove_prefix(more);
    if (block.size() < kBlockSize) return {};
    LSMFS_TRY(put_in_bulk(begin, block));
    block.clear();
    begin += kBlockSize;
  }
  const std::uint64_t whole = round_down(data.size(), kBlockSize);
  if (whole > 0) LSMFS_TRY(put_in_bulk(begin, data.substr(0, whole)));
  block = data.substr(whole);
  return {};
}

Result<void> Importer::put_in_bulk(std::uint64_t offset, std::string_view data) {
  const auto written = with_room(tree_, [&] { return tree_.write_staged(stack_.front().ino, file_->ino, ByteOffset{offset}, as_bytes(data)); });
  if (!written) return make_error(written.error().code, file_->path);
  return {};
}

Result<void> Importer::finish_file() {
  if (!file_) return {};
  const auto rest = file_->block.empty() ? Result<void>() : put_in_bulk(round_down(file_->end - 1, kBlockSize), file_->block);
  const File file = *std::exchange(file_, std::nullopt);
  if (!rest) {
    tree_.forget(file.ino, 1);
    return rest;
  }
  AttrChange change;
  if (file.size > file.end) change.size = file.size;
  change.atime = file.atime;
  change.mtime = file.mtime;
  Result<Attr> set = Attr{};
  if (change.size || change.atime || change.mtime) set = with_room(tree_, [&] { return tree_.setattr(file.ino, change, Wait::yes); });
  tree_.forget(file.ino, 1);
  if (!set) return make_error(set.error().code, file.path);
  return {};
}

}  // namespace lsmfs
