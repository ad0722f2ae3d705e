#include "cli/transfer/builder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <variant>

#include "cli/transfer/beneath.h"
#include "cli/transfer/removing.h"
#include "cli/transfer/xattr_names.h"

namespace lsmfs::cli {
namespace {

using Contents = NodeRecord::Contents;

Error not_built(const std::string& path, int code) {
  const std::string shown = path.empty() ? "." : path;
  switch (code) {
    case EPERM: return make_error(code, shown + ": only root may receive that");
    case ENOSPC: case EDQUOT: return make_error(code, shown + ": no space left on the device");
    default: return make_error(code, fmt::format("{}: {}", shown, std::strerror(code)));
  }
}

Error impossible(const std::string& path, std::string_view what) { return make_error(EPROTO, fmt::format("{}: {}", path.empty() ? "." : path, what)); }

constexpr const char* kCapability = "security.capability";
constexpr std::size_t kWayMost = 64;  // directories that are held open at a time

timespec timespec_of(const Time& time) { return {time.seconds, time.nanoseconds}; }

std::string number_name(std::uint64_t number) { return fmt::format("{}", number); }

bool is_there(const Fd& directory, const std::string& name) {
  struct stat facts {};
  return fstatat(directory.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

std::uint32_t type_bit(std::uint32_t type) { return 1u << (type >> 12); }

}  // namespace

// A directory on the way.
struct Builder::Directory {
  std::string path;
  Fd fd;
  std::uint32_t hands_down_nothing = 0;  // to inodes of these types: neither attributes nor flags
};

Result<void> Builder::apply(const StreamRecord& record) {
  struct Visitor {
    Builder& builder;
    Result<void> operator()(const BeginRecord&) const { return {}; }
    Result<void> operator()(const TakeRecord& each) const { return builder.take(each); }
    Result<void> operator()(const RemoveRecord& each) const { return builder.remove(each); }
    Result<void> operator()(const RemovedRecord&) const { return {}; }
    Result<void> operator()(const PlaceRecord& each) const { return builder.place(each); }
    Result<void> operator()(const NodeRecord& each) const { return builder.begin(each); }
    Result<void> operator()(const DataRecord& each) const { return builder.write(each); }
    Result<void> operator()(const HoleRecord& each) const { return builder.punch(each); }
    Result<void> operator()(const XattrRecord& each) const { return builder.set(each); }
    Result<void> operator()(const AttributesRecord& each) const { return builder.finish(each); }
    Result<void> operator()(const LinkRecord& each) const { return builder.link(each); }
    Result<void> operator()(const FlagsRecord& each) const { return builder.lock(each); }
    Result<void> operator()(const EndRecord&) const { return {}; }
  };
  return std::visit(Visitor{*this}, record);
}

// The directory that a path is in. It is held with those above it until another one is asked for, or something is moved.
Result<std::shared_ptr<Builder::Directory>> Builder::parent(const std::string& path) {
  const std::string above = parent_of(path);
  while (!way_.empty() && !lies_in(above, way_.back()->path)) way_.pop_back();
  if (!way_.empty() && way_.back()->path == above) return way_.back();
  auto opened = open_beneath(tree_, above, O_RDONLY | O_DIRECTORY);
  if (!opened && opened.error().code == EACCES) {
    // Its owner may have no right to it.
    auto path_only = open_beneath(tree_, above, O_PATH | O_DIRECTORY);
    if (path_only && chmod(fmt::format("/proc/self/fd/{}", path_only->get()).c_str(), 0700) == 0) opened = open_beneath(tree_, above, O_RDONLY | O_DIRECTORY);
  }
  if (!opened) return not_built(above, opened.error().code);
  if (way_.size() >= kWayMost) way_.erase(way_.begin());
  way_.push_back(std::make_shared<Directory>(Directory{.path = above, .fd = *std::move(opened)}));
  return way_.back();
}

// Does what a flag of the directory or of what has the name may hinder, without those flags if need be. The stream ends with the flags of both.
template <class Do>
int Builder::unlocked(const Fd& parent, const std::string& name, const Do& act) {
  int done = act();
  if (done >= 0) return done;
  if (errno == EPERM) {
    if (unlock_both(parent, name)) return act();
  } else if (errno == EACCES && fchmod(parent.get(), 0700) == 0) {
    return act();
  }
  return done;
}

Result<void> Builder::take(const TakeRecord& record) {
  const std::string name = last_name_of(record.path), number = number_name(record.number);
  const auto above = parent(record.path);
  // What it was in may have gone since, by a later record.
  if (!above) return above.error().code == ENOENT && is_there(moved_, number) ? Result<void>() : above.error();
  const Fd& from = (*above)->fd;
  const int done = unlocked(from, name, [&] { return renameat2(from.get(), name.c_str(), moved_.get(), number.c_str(), RENAME_NOREPLACE); });
  const int code = errno;
  way_.clear();
  if (done == 0 || (code == ENOENT && is_there(moved_, number))) return {};
  return not_built(record.path, code);
}

Result<void> Builder::remove(const RemoveRecord& record) {
  const auto from = parent(record.path);
  if (!from) return from.error().code == ENOENT ? Result<void>() : from.error();  // likewise
  const auto removed = remove_all((*from)->fd, last_name_of(record.path));
  return removed ? Result<void>() : not_built(record.path, removed.error().code);
}

Result<void> Builder::place(const PlaceRecord& record) {
  LSMFS_ASSIGN(const std::shared_ptr<Directory> above, parent(record.path));
  const Fd& to = above->fd;
  const std::string name = last_name_of(record.path), number = number_name(record.number);
  const int done = unlocked(to, name, [&] { return renameat2(moved_.get(), number.c_str(), to.get(), name.c_str(), RENAME_NOREPLACE); });
  if (done == 0 || (errno == ENOENT && is_there(to, name))) return {};
  return not_built(record.path, errno);
}

// ---- an inode

std::string Builder::at() const { return file_ ? fmt::format("/proc/self/fd/{}", file_.get()) : fmt::format("/proc/self/fd/{}/{}", directory_->fd.get(), name_); }

Result<void> Builder::go_to(const std::string& path) {
  has_node_ = is_new_ = has_xattrs_ = false;
  size_ = 0;
  mode_.reset();
  flags_.reset();
  file_.reset();
  path_ = path;
  name_ = path.empty() ? "." : last_name_of(path);
  if (path.empty()) way_.clear();  // what it hands down may change from here on
  LSMFS_ASSIGN(directory_, parent(path));
  return {};
}

// The node as it is, which is then open if it is a file or a directory.
Result<struct stat> Builder::open_node(bool to_write) {
  const Fd& above = directory_->fd;
  struct stat facts {};
  if ((file_ ? fstat(file_.get(), &facts) : fstatat(above.get(), name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW)) != 0) return not_built(path_, errno);
  type_ = facts.st_mode & S_IFMT;
  mode_ = facts.st_mode & 07777;
  if (!file_ && (S_ISREG(facts.st_mode) || S_ISDIR(facts.st_mode))) {
    const int flags = (S_ISDIR(facts.st_mode) ? O_RDONLY | O_DIRECTORY : to_write ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    file_ = Fd(openat(above.get(), name_.c_str(), flags));
    if (!file_ && errno == EPERM && unlock_both(above, name_)) file_ = Fd(openat(above.get(), name_.c_str(), flags));
    if (!file_ && errno == EACCES && fchmodat(above.get(), name_.c_str(), 0700, 0) == 0) file_ = Fd(openat(above.get(), name_.c_str(), flags));
    if (!file_) return not_built(path_, errno);
    if (!is_new_) {
      const auto unlocked = unlock(file_);
      if (unlocked) flags_ = *unlocked & ~kLockingFlags;
      else if (unlocked.error().code != EPERM) return not_built(path_, unlocked.error().code);
    }
  }
  has_node_ = true;
  return facts;
}

Result<void> Builder::go_on_with(const std::string& path) {
  LSMFS_TRY(go_to(path));
  LSMFS_TRY(open_node(true));
  return {};
}

Result<void> Builder::begin(const NodeRecord& record) {
  LSMFS_TRY(go_to(record.path));
  if (record.contents == Contents::fresh) LSMFS_TRY(make(record));
  LSMFS_ASSIGN(const struct stat facts, open_node(record.type == S_IFREG));
  if (type_ != record.type) return impossible(record.path, "is something else than the stream says");
  if (record.contents == Contents::replaced && ftruncate(file_.get(), 0) != 0) return not_built(record.path, errno);
  return own(facts, record.uid, record.gid);
}

// What has the name already was made by the same record before, or takes its place only where this can be known as well.
Result<void> Builder::make(const NodeRecord& record) {
  const Fd& above = directory_->fd;
  const auto attempt = [&]() -> int {
    switch (record.type) {
      case S_IFDIR: return mkdirat(above.get(), name_.c_str(), 0700);
      case S_IFLNK: return symlinkat(record.target.c_str(), above.get(), name_.c_str());
      case S_IFREG: {
        file_ = Fd(openat(above.get(), name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, usual_mode_));
        return file_ ? 0 : -1;
      }
      default: return mknodat(above.get(), name_.c_str(), record.type | 0600, record.device);
    }
  };
  int made = unlocked(above, name_, attempt);
  if (made != 0 && errno == EEXIST) {
    struct stat facts {};
    if (fstatat(above.get(), name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return not_built(record.path, errno);
    if (S_ISDIR(facts.st_mode)) return record.type == S_IFDIR ? Result<void>() : impossible(record.path, "is made twice");
    if (unlocked(above, name_, [&] { return unlinkat(above.get(), name_.c_str(), 0); }) != 0) return not_built(record.path, errno);
    made = attempt();
  }
  if (made != 0) return not_built(record.path, errno);
  is_new_ = true;
  return {};
}

Result<void> Builder::own(const struct stat& facts, std::uint32_t uid, std::uint32_t gid) {
  if (facts.st_uid == uid && facts.st_gid == gid) return {};
  if (fchownat(directory_->fd.get(), name_.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) == 0) return {};
  if (errno != EPERM) return not_built(path_, errno);
  return make_error(EPERM, fmt::format("{}: belongs to user {} and group {}, and only root may receive what belongs to others", path_.empty() ? "." : path_, uid, gid));
}

Result<void> Builder::write(const DataRecord& record) {
  if (!has_node_ || type_ != S_IFREG) return impossible(path_, "has no data");
  for (std::size_t done = 0; done < record.bytes.size();) {
    const ssize_t more = pwrite(file_.get(), record.bytes.data() + done, record.bytes.size() - done, static_cast<off_t>(record.offset + done));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) return not_built(path_, more < 0 ? errno : EIO);
    done += static_cast<std::size_t>(more);
  }
  size_ = std::max(size_, record.offset + record.bytes.size());
  return {};
}

Result<void> Builder::punch(const HoleRecord& record) {
  if (!has_node_ || type_ != S_IFREG) return impossible(path_, "has no data");
  if (fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(record.offset), static_cast<off_t>(record.count)) != 0) return not_built(path_, errno);
  return {};
}

Result<void> Builder::set(const XattrRecord& record) {
  if (!has_node_) return impossible(path_, "has an attribute before it is there");
  has_xattrs_ = true;
  mode_.reset();  // an access control list is more than an attribute
  const std::string path = at();
  const int done = file_ ? fsetxattr(file_.get(), record.name.c_str(), record.value.data(), record.value.size(), 0)
                         : lsetxattr(path.c_str(), record.name.c_str(), record.value.data(), record.value.size(), 0);
  if (done == 0) return {};
  if (errno == EOPNOTSUPP) return make_error(EOPNOTSUPP, fmt::format("{}: extended attributes are not kept there, as of a mount with noxattr", path_.empty() ? "." : path_));
  if (errno == EPERM) return make_error(EPERM, fmt::format("{}: only root may set its attribute {}", path_.empty() ? "." : path_, record.name));
  return not_built(path_, errno);
}

Result<void> Builder::finish(const AttributesRecord& record) {
  if (!has_node_) return impossible(path_, "has attributes before it is there");
  LSMFS_ASSIGN(const std::uint32_t flags, clean(record));
  if (!is_new_) {
    struct stat facts {};
    if (fstatat(directory_->fd.get(), name_.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return not_built(path_, errno);
    size_ = static_cast<std::uint64_t>(facts.st_size);
    mode_ = facts.st_mode & 07777;
  }
  if (type_ == S_IFREG && size_ != record.size) LSMFS_TRY(resize(record));
  // Set-id bits may have gone with a write, of which the kernel hears a moment later.
  const bool has_mode = type_ == S_IFLNK || (mode_ == record.mode && (record.mode & (S_ISUID | S_ISGID)) == 0);
  if (!has_mode && (file_ ? fchmod(file_.get(), record.mode) : fchmodat(directory_->fd.get(), name_.c_str(), record.mode, 0)) != 0) return not_built(path_, errno);
  if (int wanted = static_cast<int>(record.flags); file_ && flags != record.flags && ioctl(file_.get(), FS_IOC_SETFLAGS, &wanted) != 0) return not_built(path_, errno);
  const timespec times[2] = {timespec_of(record.accessed), timespec_of(record.modified)};
  if ((file_ ? futimens(file_.get(), times) : utimensat(directory_->fd.get(), name_.c_str(), times, AT_SYMLINK_NOFOLLOW)) != 0) return not_built(path_, errno);
  if (type_ == S_IFREG) usual_mode_ = record.mode & 0777;
  has_node_ = false;
  file_.reset();
  directory_.reset();
  return {};
}

// Takes all extended attributes from it that it is not to have. The flags that it has.
Result<std::uint32_t> Builder::clean(const AttributesRecord& record) {
  const bool got_nothing = is_new_ && (directory_->hands_down_nothing & type_bit(type_)) != 0;
  if (got_nothing && !has_xattrs_ && record.xattrs.empty()) return 0;
  const std::string path = at();
  const auto names = xattr_names([&](char* to, std::size_t size) { return file_ ? flistxattr(file_.get(), to, size) : llistxattr(path.c_str(), to, size); });
  if (!names) return not_built(path_, errno);
  for (const std::string& name : *names) {
    if (std::ranges::find(record.xattrs, name) != record.xattrs.end()) continue;
    const int done = file_ ? fremovexattr(file_.get(), name.c_str()) : lremovexattr(path.c_str(), name.c_str());
    if (done != 0 && errno != ENODATA) return not_built(path_, errno);
    mode_.reset();
  }
  // A crash between the two steps of resize() may have taken it, and its record does not come again.
  const auto has_capability = [](const std::vector<std::string>& xattrs) { return std::ranges::find(xattrs, kCapability) != xattrs.end(); };
  if (has_capability(record.xattrs) && !has_capability(*names)) return impossible(path_, "is without its attribute security.capability");
  if (got_nothing || !file_) flags_ = 0;
  if (!flags_) {
    int found = 0;
    if (ioctl(file_.get(), FS_IOC_GETFLAGS, &found) != 0) return not_built(path_, errno);
    flags_ = static_cast<std::uint32_t>(found);
  }
  const std::uint32_t flags = *flags_ & kStreamFlags;
  if (is_new_ && names->empty() && flags == 0) directory_->hands_down_nothing |= type_bit(type_);
  return flags;
}

// With the size changes what the file may do: the kernel takes that away from it.
Result<void> Builder::resize(const AttributesRecord& record) {
  const bool has_capability = std::ranges::find(record.xattrs, kCapability) != record.xattrs.end();
  std::string capability(kXattrSizeMax, '\0');
  const ssize_t size = has_capability ? fgetxattr(file_.get(), kCapability, capability.data(), capability.size()) : 0;
  if (size < 0) return not_built(path_, errno);
  if (ftruncate(file_.get(), static_cast<off_t>(record.size)) != 0) return not_built(path_, errno);
  if (has_capability && fsetxattr(file_.get(), kCapability, capability.data(), static_cast<std::size_t>(size), 0) != 0) return not_built(path_, errno);
  return {};
}

Result<void> Builder::link(const LinkRecord& record) {
  auto from = open_beneath(tree_, parent_of(record.existing), O_PATH | O_DIRECTORY);
  if (!from) return not_built(record.existing, from.error().code);
  LSMFS_ASSIGN(const std::shared_ptr<Directory> above, parent(record.path));
  const Fd& to = above->fd;
  const std::string name = last_name_of(record.path), existing = last_name_of(record.existing);
  const auto attempt = [&] { return linkat(from->get(), existing.c_str(), to.get(), name.c_str(), 0); };
  int linked = unlocked(to, name, attempt);
  if (linked != 0 && errno == EPERM && unlock_both(*from, existing)) linked = attempt();
  if (linked != 0 && errno == EEXIST) {
    struct stat old {}, wanted {};
    if (fstatat(from->get(), existing.c_str(), &wanted, AT_SYMLINK_NOFOLLOW) != 0 || fstatat(to.get(), name.c_str(), &old, AT_SYMLINK_NOFOLLOW) != 0) return not_built(record.path, errno);
    if (old.st_ino == wanted.st_ino) return {};
    if (unlinkat(to.get(), name.c_str(), 0) != 0) return not_built(record.path, errno);
    linked = attempt();
  }
  return linked == 0 ? Result<void>() : not_built(record.path, errno);
}

// The last records of all.
Result<void> Builder::lock(const FlagsRecord& record) {
  way_.clear();  // one of those may hand down other flags then
  auto file = open_beneath(tree_, record.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file) return not_built(record.path, file.error().code);
  struct stat facts {};
  if (fstat(file->get(), &facts) != 0) return not_built(record.path, errno);
  if (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode)) return impossible(record.path, "has no flags");
  int flags = static_cast<int>(record.flags);
  return ioctl(file->get(), FS_IOC_SETFLAGS, &flags) == 0 ? Result<void>() : not_built(record.path, errno);
}

}  // namespace lsmfs::cli
