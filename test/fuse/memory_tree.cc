#include "fuse/memory_tree.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

namespace lsmfs::test {

MemoryTree::MemoryTree() {
  Node root;
  root.attr.ino = kRootIno;
  root.attr.mode = S_IFDIR | 0755;
  root.attr.nlink = 2;
  root.attr.atime = root.attr.mtime = root.attr.ctime = root.attr.btime = now();
  root.parent = kRootIno;
  root.lookups = 1;  // never forgotten
  Node snapshots = root;
  snapshots.attr.ino = kSnapshotsIno;
  snapshots.lookups = 0;
  nodes_[kRootIno] = std::move(root);
  nodes_[kSnapshotsIno] = std::move(snapshots);
}

void MemoryTree::set_hook(std::function<Result<void>(const std::string&, Wait)> hook) {
  std::lock_guard lock(mutex_);
  hook_ = std::move(hook);
}

void MemoryTree::set_surplus(std::vector<Ino> inodes) {
  std::lock_guard lock(mutex_);
  surplus_ = std::move(inodes);
}

std::vector<Ino> MemoryTree::surplus() {
  std::lock_guard lock(mutex_);
  return std::exchange(surplus_, {});
}

std::uint64_t MemoryTree::calls(const std::string& call) const {
  std::lock_guard lock(mutex_);
  const auto found = calls_.find(call);
  return found == calls_.end() ? 0 : found->second;
}

std::uint64_t MemoryTree::lookups(Ino ino) const {
  std::lock_guard lock(mutex_);
  const auto found = nodes_.find(ino);
  return found == nodes_.end() ? 0 : found->second.lookups;
}

std::uint64_t MemoryTree::inodes() const {
  std::lock_guard lock(mutex_);
  return nodes_.size() - 1;
}

std::uint64_t MemoryTree::total_lookups() const {
  std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (const auto& [ino, n] : nodes_) {
    if (ino != kRootIno) sum += n.lookups;
  }
  return sum;
}

// mutex_ is held by all below, but not while the hook runs.
Result<void> MemoryTree::enter(const char* call, Wait wait) {
  ++calls_[call];
  if (!hook_) return {};
  auto hook = hook_;
  mutex_.unlock();
  auto result = hook(call, wait);
  mutex_.lock();
  return result;
}

Result<MemoryTree::Node*> MemoryTree::node(Ino ino) {
  const auto found = nodes_.find(ino);
  if (found == nodes_.end()) return make_error(ENOENT, "no such inode");
  return &found->second;
}

Result<MemoryTree::Node*> MemoryTree::directory(Ino ino) {
  LSMFS_ASSIGN(Node * n, node(ino));
  if (!S_ISDIR(n->attr.mode)) return make_error(ENOTDIR, "not a directory");
  if (n->attr.nlink == 0) return make_error(ENOENT, "removed");
  return n;
}

Result<Ino> MemoryTree::child(Node& dir, std::string_view name) {
  const auto found = dir.children.find(name);
  if (found == dir.children.end()) return make_error(ENOENT, std::string(name));
  return found->second;
}

Time MemoryTree::now() {
  constexpr std::int64_t kBegin = 1'800'000'000, kInSecond = 1000;
  const std::int64_t ticks = ticks_++;
  return {kBegin + ticks / kInSecond, static_cast<std::uint32_t>(ticks % kInSecond * (1'000'000'000 / kInSecond))};
}

void MemoryTree::changed(Node& dir) { dir.attr.mtime = dir.attr.ctime = now(); }

void MemoryTree::erase_if_unused(Ino ino) {
  const auto found = nodes_.find(ino);
  if (found != nodes_.end() && found->second.attr.nlink == 0 && found->second.lookups == 0) nodes_.erase(found);
}

// Takes one name off an inode.
void MemoryTree::detach(Ino ino, bool is_directory) {
  Node& n = nodes_.at(ino);
  n.attr.nlink = is_directory ? 0 : n.attr.nlink - 1;
  n.attr.ctime = now();
  erase_if_unused(ino);
}

Result<void> MemoryTree::close() { return {}; }

Result<std::optional<Attr>> MemoryTree::lookup(Ino dir, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("lookup", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
  const bool is_snapshots = dir == kRootIno && name == kSnapshotsName;
  const auto found = d->children.find(name);
  if (!is_snapshots && found == d->children.end()) return std::optional<Attr>();
  Node& n = nodes_.at(is_snapshots ? kSnapshotsIno : found->second);
  ++n.lookups;
  return std::optional<Attr>(n.attr);
}

void MemoryTree::forget(Ino ino, std::uint64_t lookups) {
  std::lock_guard lock(mutex_);
  ++calls_["forget"];
  const auto found = nodes_.find(ino);
  if (found == nodes_.end() || ino == kRootIno) return;
  if (found->second.lookups < lookups) {
    // A test that has any of these wrong must fail.
    std::fprintf(stderr, "forget: %llu of %llu\n", static_cast<unsigned long long>(lookups),
                 static_cast<unsigned long long>(found->second.lookups));
    std::abort();
  }
  found->second.lookups -= lookups;
  if (found->second.staged && found->second.lookups == 0) {
    remove_below(ino);
    found->second.attr.nlink = 0;
  }
  erase_if_unused(ino);
}

Result<Attr> MemoryTree::getattr(Ino ino, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("getattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  return n->attr;
}

Result<Ino> MemoryTree::directory_of(Ino ino, Wait) {
  std::lock_guard lock(mutex_);
  LSMFS_ASSIGN(const Node* n, node(ino));
  return n->parent;
}

Result<Attr> MemoryTree::setattr(Ino ino, const AttrChange& change, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("setattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  const Time when = now();
  Attr& attr = n->attr;
  if (change.mode) attr.mode = (attr.mode & S_IFMT) | *change.mode;
  if (change.uid) attr.uid = *change.uid;
  if (change.gid) attr.gid = *change.gid;
  if (change.size) {
    n->data.resize(*change.size);
    attr.size = *change.size;
    attr.mtime = when;
  }
  if (change.atime) attr.atime = *change.atime;
  if (change.mtime) attr.mtime = *change.mtime;
  attr.ctime = change.ctime.value_or(when);
  return attr;
}

Result<std::string> MemoryTree::readlink(Ino ino, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("readlink", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  return n->data;
}

Result<Attr> MemoryTree::make(Ino dir, std::string_view name, const NewInode& inode, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("make", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
  if (d->children.contains(name)) return make_error(EEXIST, "");
  if (dir == kSnapshotsIno) return make_error(EROFS, "");
  const Ino ino{next_ino_++};
  Node n;
  n.attr.ino = ino;
  n.attr.mode = S_ISLNK(inode.mode) ? inode.mode : inode.mode & ~(inode.umask & 0777);
  n.attr.nlink = S_ISDIR(inode.mode) ? 2 : 1;
  n.attr.uid = inode.uid;
  n.attr.gid = inode.gid;
  n.attr.rdev = inode.rdev;
  n.attr.atime = n.attr.mtime = n.attr.ctime = n.attr.btime = now();
  if (S_ISLNK(inode.mode)) {
    n.data = inode.symlink;
    n.attr.size = n.data.size();
  }
  n.parent = dir;
  n.lookups = 1;
  if (S_ISDIR(inode.mode)) ++d->attr.nlink;
  d->children.emplace(name, ino);
  changed(*d);
  return nodes_.emplace(ino, std::move(n)).first->second.attr;
}

MemoryTree::Node& MemoryTree::add_unnamed(Ino dir, const NewInode& inode) {
  const Ino ino{next_ino_++};
  Node n;
  n.attr.ino = ino;
  n.attr.mode = inode.mode & ~(inode.umask & 0777);
  n.attr.uid = inode.uid;
  n.attr.gid = inode.gid;
  n.attr.atime = n.attr.mtime = n.attr.ctime = n.attr.btime = now();
  n.lookups = 1;
  n.parent = dir;
  return nodes_.emplace(ino, std::move(n)).first->second;
}

Result<Attr> MemoryTree::make_unnamed(Ino dir, const NewInode& inode, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("make_unnamed", wait));
  LSMFS_TRY(directory(dir));
  return add_unnamed(dir, inode).attr;
}

Result<Attr> MemoryTree::stage(Ino dir, std::string_view, const NewInode& inode, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("stage", wait));
  LSMFS_TRY(directory(dir));
  Node& staged = add_unnamed(dir, inode);
  staged.attr.nlink = 2;
  staged.staged = true;
  return staged.attr;
}

Result<Attr> MemoryTree::link(Ino ino, Ino dir, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("link", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  LSMFS_ASSIGN(Node * n, node(ino));
  if (d->children.contains(name)) return make_error(EEXIST, "");
  d->children.emplace(name, ino);
  changed(*d);
  if (n->staged) {
    n->staged = false;
    ++d->attr.nlink;
  } else {
    ++n->attr.nlink;
  }
  n->attr.ctime = now();
  ++n->lookups;
  return n->attr;
}

Result<void> MemoryTree::unlink(Ino dir, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("unlink", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  LSMFS_ASSIGN(const Ino ino, child(*d, name));
  if (S_ISDIR(nodes_.at(ino).attr.mode)) return make_error(EISDIR, "");
  d->children.erase(d->children.find(name));
  changed(*d);
  detach(ino, false);
  return {};
}

Result<void> MemoryTree::rmdir(Ino dir, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("rmdir", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  LSMFS_ASSIGN(const Ino ino, child(*d, name));
  if (!S_ISDIR(nodes_.at(ino).attr.mode)) return make_error(ENOTDIR, "");
  if (!nodes_.at(ino).children.empty()) return make_error(ENOTEMPTY, "");
  d->children.erase(d->children.find(name));
  --d->attr.nlink;
  changed(*d);
  detach(ino, true);
  return {};
}

Result<void> MemoryTree::rename(Ino from_dir, std::string_view from, Ino to_dir, std::string_view to, unsigned flags,
                                Wait wait, Owner) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("rename", wait));
  LSMFS_ASSIGN(Node * fd, directory(from_dir));
  LSMFS_ASSIGN(Node * td, directory(to_dir));
  LSMFS_ASSIGN(const Ino ino, child(*fd, from));
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) return make_error(EINVAL, "");
  const auto target = td->children.find(to);
  const bool is_dir = S_ISDIR(nodes_.at(ino).attr.mode);
  if (flags & RENAME_EXCHANGE) {
    if (target == td->children.end()) return make_error(ENOENT, "");
    std::swap(fd->children.find(from)->second, target->second);
    const bool other_dir = S_ISDIR(nodes_.at(fd->children.find(from)->second).attr.mode);
    fd->attr.nlink = fd->attr.nlink - is_dir + other_dir;
    td->attr.nlink = td->attr.nlink + is_dir - other_dir;
    changed(*fd);
    changed(*td);
    return {};
  }
  if (target != td->children.end()) {
    if (flags & RENAME_NOREPLACE) return make_error(EEXIST, "");
    const Ino victim = target->second;
    if (victim == ino) return {};
    const bool victim_dir = S_ISDIR(nodes_.at(victim).attr.mode);
    if (is_dir && !victim_dir) return make_error(ENOTDIR, "");
    if (!is_dir && victim_dir) return make_error(EISDIR, "");
    if (victim_dir && !nodes_.at(victim).children.empty()) return make_error(ENOTEMPTY, "");
    td->children.erase(target);
    if (victim_dir) --td->attr.nlink;
    detach(victim, victim_dir);
  }
  fd->children.erase(fd->children.find(from));
  td->children.emplace(to, ino);
  if (is_dir) {
    --fd->attr.nlink;
    ++td->attr.nlink;
    nodes_.at(ino).parent = to_dir;
  }
  nodes_.at(ino).attr.ctime = now();
  changed(*fd);
  changed(*td);
  return {};
}

Result<void> MemoryTree::readdir(Ino dir, std::uint64_t cookie, AttrsOf attrs, const DirVisitor& visit, Wait wait,
                                 AccessTime) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("readdir", wait));
  LSMFS_ASSIGN(Node * d, node(dir));
  if (cookie < 1 && !visit({".", d->attr, 1, false, false})) return {};
  if (cookie < 2 && !visit({"..", nodes_.at(d->parent).attr, 2, false, false})) return {};
  auto at = d->children.begin();
  if (cookie > 2) {
    const auto after = d->names_of_cookies.find(cookie);
    if (after == d->names_of_cookies.end()) return make_error(EINVAL, "cookie");
    at = d->children.upper_bound(after->second);
  }
  for (; at != d->children.end(); ++at) {
    auto [known, is_new] = d->cookies.try_emplace(at->first, next_cookie_);
    if (is_new) d->names_of_cookies[next_cookie_++] = at->first;
    Node& n = nodes_.at(at->second);
    const bool whole = attrs == AttrsOf::all || (attrs == AttrsOf::directories && S_ISDIR(n.attr.mode));
    if (!visit({at->first, n.attr, known->second, whole, n.lookups > 0})) return {};
    if (whole) ++n.lookups;
  }
  return {};
}

Result<std::size_t> MemoryTree::read(Ino ino, ByteOffset offset, MutableBytes to, Wait wait, AccessTime atime) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("read", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  if (atime == AccessTime::now) n->attr.atime = now();
  if (offset.v >= n->data.size()) return std::size_t{0};
  const std::size_t size = std::min<std::size_t>(to.size(), n->data.size() - offset.v);
  std::memcpy(to.data(), n->data.data() + offset.v, size);
  return size;
}

Result<void> MemoryTree::write(Ino ino, ByteOffset offset, Bytes data, Wait wait, ChangeTime time) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("write", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  if (n->data.size() < offset.v + data.size()) n->data.resize(offset.v + data.size());
  std::memcpy(n->data.data() + offset.v, data.data(), data.size());
  n->attr.size = n->data.size();
  n->attr.blocks = div_up(n->attr.size, 512);
  if (time == ChangeTime::now) n->attr.mtime = n->attr.ctime = now();
  return {};
}

// Shares nothing, and copies in pieces as a tree does.
Result<ByteCount> MemoryTree::copy_range(Ino from, ByteOffset at, Ino to, ByteOffset to_at, ByteCount length, Wait wait) {
  if (wait == Wait::no) {
    LSMFS_ASSIGN(const Attr source, getattr(from, wait));
    if (std::min(length.v, source.size - std::min(source.size, at.v)) >= 128 * KiB) return make_error(EAGAIN, "");
  }
  std::string piece(MiB, '\0');
  std::uint64_t done = 0;
  while (done < length.v) {
    const MutableBytes bytes{reinterpret_cast<std::byte*>(piece.data()), std::min<std::uint64_t>(piece.size(), length.v - done)};
    const auto got = read(from, ByteOffset{at.v + done}, bytes, wait, AccessTime::now);
    const auto written = got ? write(to, ByteOffset{to_at.v + done}, bytes.first(*got), wait, ChangeTime::now) : Result<void>(got.error());
    if (!written && done == 0) return written.error();
    if (!written || *got == 0) break;
    done += *got;
  }
  return ByteCount{done};
}

Result<void> MemoryTree::fallocate(Ino ino, int mode, ByteOffset offset, ByteCount length, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("fallocate", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  const std::uint64_t end = offset.v + length.v;
  if (!(mode & FALLOC_FL_KEEP_SIZE) && end > n->attr.size) n->attr.size = end;
  n->data.resize(n->attr.size);
  if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) && offset.v < n->attr.size) {
    const std::uint64_t until = std::min(end, n->attr.size);
    n->data.replace(offset.v, until - offset.v, until - offset.v, '\0');
  }
  return {};
}

// Blocks of zeros are holes.
Result<ByteOffset> MemoryTree::seek(Ino ino, ByteOffset offset, int whence, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("seek", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  if (offset.v >= n->attr.size) return make_error(ENXIO, "");
  for (std::uint64_t at = offset.v; at < n->attr.size; at = (at / kBlockSize + 1) * kBlockSize) {
    const std::string block = n->data.substr(at / kBlockSize * kBlockSize, kBlockSize);
    if ((block.find_first_not_of('\0') != block.npos) == (whence == SEEK_DATA)) return ByteOffset{at};
  }
  if (whence == SEEK_DATA) return make_error(ENXIO, "");
  return ByteOffset{n->attr.size};
}

Result<std::string> MemoryTree::getxattr(Ino ino, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("getxattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  const auto found = n->xattrs.find(name);
  if (found == n->xattrs.end()) return make_error(ENODATA, "");
  return found->second;
}

Result<void> MemoryTree::setxattr(Ino ino, std::string_view name, std::string_view value, int flags, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("setxattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  const bool exists = n->xattrs.contains(name);
  if (exists && (flags & XATTR_CREATE)) return make_error(EEXIST, "");
  if (!exists && (flags & XATTR_REPLACE)) return make_error(ENODATA, "");
  n->xattrs[std::string(name)] = value;
  return {};
}

Result<void> MemoryTree::removexattr(Ino ino, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("removexattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  if (n->xattrs.erase(std::string(name)) == 0) return make_error(ENODATA, "");
  return {};
}

Result<std::string> MemoryTree::listxattr(Ino ino, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("listxattr", wait));
  LSMFS_ASSIGN(Node * n, node(ino));
  std::string names;
  for (const auto& [name, value] : n->xattrs) names.append(name).push_back('\0');
  return names;
}

void MemoryTree::remove_below(Ino dir) {
  for (const auto& [name, child] : std::exchange(nodes_.at(dir).children, {})) {
    const bool is_directory = S_ISDIR(nodes_.at(child).attr.mode);
    if (is_directory) remove_below(child);
    detach(child, is_directory);
  }
}

Ino MemoryTree::copy(Ino of, Ino parent, std::map<Ino, Ino>& copies) {
  const auto [known, is_new] = copies.try_emplace(of, Ino{next_ino_});
  const Ino ino = known->second;
  if (!is_new) {
    ++nodes_.at(ino).attr.nlink;
    return ino;
  }
  ++next_ino_;
  const Node& source = nodes_.at(of);
  Node made;
  made.attr = source.attr;
  made.attr.ino = ino;
  if (!S_ISDIR(made.attr.mode)) made.attr.nlink = 1;
  made.parent = parent;
  made.data = source.data;
  made.xattrs = source.xattrs;
  nodes_.emplace(ino, std::move(made));
  for (const auto& [child, child_ino] : source.children) {
    const Ino child_copy = copy(child_ino, ino, copies);
    nodes_.at(ino).children.emplace(child, child_copy);
  }
  return ino;
}

Result<std::string> MemoryTree::remove_tree(Ino dir, Ino parent, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("remove_tree", wait));
  if (dir == kRootIno) return make_error(EBUSY, "");
  LSMFS_ASSIGN(Node * n, directory(dir));
  if (n->parent != parent) return make_error(ESTALE, "");
  Node& p = nodes_.at(parent);
  const auto entry = std::ranges::find_if(p.children, [&](const auto& child) { return child.second == dir; });
  const std::string name = entry->first;
  p.children.erase(entry);
  --p.attr.nlink;
  changed(p);
  remove_below(dir);
  detach(dir, true);
  return name;
}

Result<void> MemoryTree::clone(Ino dir, Ino to, std::string_view name, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("clone", wait));
  LSMFS_TRY(directory(dir));
  LSMFS_ASSIGN(Node * t, directory(to));
  if (name.size() > kNameMax) return make_error(ENAMETOOLONG, "");
  if (t->children.contains(name)) return make_error(EEXIST, "");
  for (Ino above = to;; above = nodes_.at(above).parent) {
    if (above == dir) return make_error(EINVAL, "");
    if (above == kRootIno || above == kSnapshotsIno) break;
  }
  std::map<Ino, Ino> copies;
  t->children.emplace(name, copy(dir, to, copies));
  ++t->attr.nlink;
  changed(*t);
  return {};
}

Result<std::vector<SweptEntry>> MemoryTree::roll_back(Ino dir, Ino snapshot, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("roll_back", wait));
  LSMFS_ASSIGN(Node * d, directory(dir));
  LSMFS_ASSIGN(const Node* source, directory(snapshot));
  std::vector<SweptEntry> gone;
  for (const auto& [name, child] : d->children) {
    if (nodes_.at(child).lookups > 0) gone.push_back({dir, name, child});
  }
  remove_below(dir);
  d->attr.mode = source->attr.mode;
  d->attr.nlink = source->attr.nlink;
  std::map<Ino, Ino> copies;
  for (const auto& [name, child] : source->children) {
    const Ino made = copy(child, dir, copies);
    d->children.emplace(name, made);
  }
  changed(*d);
  return gone;
}

bool MemoryTree::in_use(Ino dir, std::string_view name) {
  std::lock_guard lock(mutex_);
  if (!enter("in_use", Wait::yes)) return false;
  const auto found = nodes_.find(dir);
  if (found == nodes_.end()) return false;
  const auto child = found->second.children.find(name);
  return child != found->second.children.end() && nodes_.at(child->second).lookups > 0;
}

Result<SnapshotInfo> MemoryTree::snapshot_info(Ino ino, Wait wait) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("snapshot_info", wait));
  LSMFS_ASSIGN(const Node* n, node(ino));
  if (n->parent != kSnapshotsIno) return make_error(EINVAL, "");
  return SnapshotInfo{n->attr.ctime, snapshots_of_};
}

Result<SnapshotSizes> MemoryTree::snapshot_sizes(Ino ino, const Stop& stop) {
  std::function<Result<SnapshotSizes>(const Stop&)> sizes;
  {
    std::lock_guard lock(mutex_);
    LSMFS_TRY(enter("snapshot_sizes", Wait::yes));
    LSMFS_ASSIGN(const Node* n, node(ino));
    if (n->parent != kSnapshotsIno) return make_error(EINVAL, "");
    sizes = sizes_;
  }
  return sizes ? sizes(stop) : SnapshotSizes();
}

void MemoryTree::set_sizes(std::function<Result<SnapshotSizes>(const Stop&)> sizes) {
  std::lock_guard lock(mutex_);
  sizes_ = std::move(sizes);
}

Result<DifferencesStep> MemoryTree::differences(Ino a, Ino b, const DifferencesAsked& asked, const Stop& stop) {
  Differing differences;
  {
    std::lock_guard lock(mutex_);
    LSMFS_TRY(enter("differences", Wait::yes));
    for (const Ino ino : {a, b}) LSMFS_TRY(node(ino));
    differences = differences_;
  }
  return differences ? differences(a, b, asked, stop) : DifferencesStep{.found = {}, .shifts = {}, .next = {}, .ended = true};
}

Result<ChangesStep> MemoryTree::changes(Ino dir, const ChangesAsked& asked, const Stop& stop) {
  Changing changes;
  {
    std::lock_guard lock(mutex_);
    LSMFS_TRY(enter("changes", Wait::yes));
    LSMFS_TRY(node(dir));
    changes = changes_;
  }
  if (changes) return changes(dir, asked, stop);
  ChangesStep step;
  step.ended = true;
  return step;
}

void MemoryTree::set_changes(Changing changes) {
  std::lock_guard lock(mutex_);
  changes_ = std::move(changes);
}

void MemoryTree::set_differences(Differing differences) {
  std::lock_guard lock(mutex_);
  differences_ = std::move(differences);
}

void MemoryTree::set_snapshots_of(std::string path) {
  std::lock_guard lock(mutex_);
  snapshots_of_ = std::move(path);
}

void MemoryTree::on_swept(std::function<void(std::vector<SweptEntry>)> told) {
  std::lock_guard lock(mutex_);
  on_swept_ = std::move(told);
}

void MemoryTree::tell_swept(std::vector<SweptEntry> entries) {
  std::lock_guard lock(mutex_);
  if (on_swept_) on_swept_(std::move(entries));
}

Result<void> MemoryTree::sync() {
  std::lock_guard lock(mutex_);
  return enter("sync", Wait::yes);
}

Result<void> MemoryTree::drop_caches() {
  std::lock_guard lock(mutex_);
  return enter("drop_caches", Wait::yes);
}

Result<ScrubStep> MemoryTree::scrub(ScrubPosition& position, const Stop& stop) { return on_scrub(position, stop); }

Result<ByteCount> MemoryTree::trim(const TrimRange& range, const Stop& stop) { return on_trim(range, stop); }
Result<void> MemoryTree::reconfigure(const TreeSettings& settings) {
  std::lock_guard lock(mutex_);
  LSMFS_TRY(enter("reconfigure", Wait::yes));
  settings_ = settings;
  return {};
}

bool MemoryTree::read_only() const {
  std::lock_guard lock(mutex_);
  return settings_.read_only.value_or(false);
}

TreeSettings MemoryTree::settings() const {
  std::lock_guard lock(mutex_);
  return settings_;
}

Result<SpaceInfo> MemoryTree::space(Wait) {
  std::lock_guard lock(mutex_);
  return SpaceInfo{ByteCount{1 * GiB}, ByteCount{512 * MiB}, nodes_.size() - 1, 1000};
}

TreeCounts MemoryTree::counts() const { return {}; }

}  // namespace lsmfs::test
