#include "cli/transfer/sender.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "cli/transfer/beneath.h"
#include "cli/transfer/xattr_names.h"

namespace lsmfs::cli {
namespace {

using Contents = NodeRecord::Contents;

constexpr std::size_t kOpenMost = 64;  // directories that are held open at a time

Time time_of(const timespec& time) { return {time.tv_sec, static_cast<std::uint32_t>(time.tv_nsec)}; }

// Whether it has no hole: then it has a block for each kBlockSize of its size.
bool is_all_data(const struct stat& facts) { return static_cast<std::uint64_t>(facts.st_blocks) * 512 == round_up(static_cast<std::uint64_t>(facts.st_size), kBlockSize); }

// In byte order. nullopt: errno says why.
std::optional<std::vector<std::string>> names_of(const Fd& directory) {
  const int again = openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return std::nullopt;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(again), closedir);
  if (!stream) {
    close(again);
    return std::nullopt;
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(stream.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

}  // namespace

// A directory on the way.
struct Sender::Listing {
  std::string path;
  struct stat facts {};
  std::vector<std::string> names;
  std::size_t at = 0;
  Fd fd;
  Entry itself() const { return {.path = path, .directory = &fd, .name = ".", .facts = facts}; }
};

Error Sender::failed(int code, const std::string& path, const char* what) const {
  return make_error(code, fmt::format("{}: {}", path_of_child(name_, path), *what != '\0' ? what : code == EACCES ? "no permission to read it" : std::strerror(code)));
}

template <class Make>
Result<void> Sender::put(const Make& make) {
  if (writer_.is_passed_over()) {
    writer_.pass_over();
    return {};
  }
  LSMFS_ASSIGN(const StreamRecord record, make());
  return writer_.put(record);
}

Result<Sender::Entry> Sender::entry_in(const Fd& directory, const std::string& path) {
  Entry entry{.path = path, .directory = &directory, .name = last_name_of(path), .facts = {}};
  struct stat above {};
  if (fstatat(directory.get(), entry.name.c_str(), &entry.facts, AT_SYMLINK_NOFOLLOW) != 0 || fstat(directory.get(), &above) != 0) return failed(errno, path);
  if (entry.facts.st_dev != above.st_dev) return failed(EXDEV, path, "something else is mounted there; unmount it");
  return entry;
}

Result<void> Sender::send_all() {
  LSMFS_TRY(put([]() -> Result<StreamRecord> { return StreamRecord(RemovedRecord()); }));
  LSMFS_TRY(put_tree(""));
  return put_last();
}

Result<void> Sender::send_changes(const ChangePlan& plan, const AskRanges& ask) {
  plan_ = &plan;
  for (const ChangePlan::Gone& gone : plan.gone) {
    LSMFS_TRY(put([&]() -> Result<StreamRecord> {
      if (gone.number) return StreamRecord(TakeRecord{.path = gone.path, .number = *gone.number});
      return StreamRecord(RemoveRecord{.path = gone.path});
    }));
  }
  LSMFS_TRY(put([]() -> Result<StreamRecord> { return StreamRecord(RemovedRecord()); }));
  for (const ChangePlan::Item& item : plan.items) {
    using What = ChangePlan::Item::What;
    if (item.what == What::place) {
      LSMFS_TRY(put([&]() -> Result<StreamRecord> { return StreamRecord(PlaceRecord{.path = item.path, .number = item.number}); }));
      continue;
    }
    const auto directory = open_beneath(root_, parent_of(item.path), O_PATH | O_DIRECTORY);
    if (!directory) return failed(directory.error().code, parent_of(item.path));
    LSMFS_ASSIGN(const Entry entry, entry_in(*directory, item.path));
    if (item.what == What::fresh && S_ISDIR(entry.facts.st_mode)) {
      LSMFS_TRY(put_tree(item.path));
    } else if (item.what == What::contents && ask) {
      LSMFS_TRY(put_changed(entry, item.old_path, ask));
    } else {
      LSMFS_TRY(put_whole(entry, item.what == What::fresh ? Contents::fresh : item.what == What::contents ? Contents::replaced : Contents::kept));
    }
  }
  for (const auto& each : plan.links) {
    LSMFS_TRY(put([&]() -> Result<StreamRecord> { return StreamRecord(LinkRecord{.path = each.first, .existing = each.second}); }));
  }
  later_.insert(later_.end(), plan.directories.begin(), plan.directories.end());
  std::ranges::sort(later_, [](const std::string& a, const std::string& b) { return is_earlier(b, a); });
  later_.erase(std::unique(later_.begin(), later_.end()), later_.end());
  for (const std::string& path : later_) LSMFS_TRY(put_directory(path));
  return put_last();
}

// What lets nothing be changed any more.
Result<void> Sender::put_last() {
  for (const auto& each : locking_) {
    LSMFS_TRY(put([&]() -> Result<StreamRecord> { return StreamRecord(FlagsRecord{.path = each.first, .flags = each.second}); }));
  }
  const EndRecord end{.records = writer_.records(), .bytes = bytes_};
  return put([&]() -> Result<StreamRecord> { return StreamRecord(end); });
}

// A directory with all that lies below it.
Result<void> Sender::put_tree(const std::string& top) {
  std::vector<Listing> way;
  const auto enter = [&](const std::string& path) -> Result<void> {
    auto opened = open_beneath(root_, path, O_RDONLY | O_DIRECTORY);
    if (!opened) return failed(opened.error().code, path);
    Listing listing{.path = path, .facts = {}, .names = {}, .at = 0, .fd = *std::move(opened)};
    if (fstat(listing.fd.get(), &listing.facts) != 0) return failed(errno, path);
    auto names = names_of(listing.fd);
    if (!names) return failed(errno, path);
    listing.names = *std::move(names);
    if (way.size() >= kOpenMost) way[way.size() - kOpenMost].fd.reset();
    way.push_back(std::move(listing));
    return put_node(way.back().itself(), path.empty() ? Contents::kept : Contents::fresh);
  };
  auto entered = enter(top);
  if (!entered) return entered;
  while (!way.empty()) {
    Listing& listing = way.back();
    if (!listing.fd) {
      auto opened = open_beneath(root_, listing.path, O_RDONLY | O_DIRECTORY);
      if (!opened) return failed(opened.error().code, listing.path);
      listing.fd = *std::move(opened);
    }
    if (listing.at == listing.names.size()) {
      if (plan_) {
        later_.push_back(listing.path);
      } else {
        LSMFS_TRY(put_whole(listing.itself(), Contents::kept));
      }
      way.pop_back();
      continue;
    }
    const std::string path = path_of_child(listing.path, listing.names[listing.at++]);
    LSMFS_ASSIGN(const Entry entry, entry_in(listing.fd, path));
    if (S_ISDIR(entry.facts.st_mode)) {
      auto below = enter(path);
      if (!below) return below;
      continue;
    }
    if (plan_) {
      if (!plan_->links.contains(path)) LSMFS_TRY(put_whole(entry, Contents::fresh));
      continue;
    }
    const auto [known, is_first] = entry.facts.st_nlink > 1 ? known_.emplace(entry.facts.st_ino, path) : std::pair(known_.end(), true);
    if (is_first) {
      LSMFS_TRY(put_whole(entry, Contents::fresh));
    } else {
      LSMFS_TRY(put([&, &existing = known->second]() -> Result<StreamRecord> { return StreamRecord(LinkRecord{.path = path, .existing = existing}); }));
    }
  }
  return {};
}

Result<void> Sender::put_node(const Entry& entry, Contents contents) {
  return put([&]() -> Result<StreamRecord> {
    const struct stat& facts = entry.facts;
    NodeRecord node{.path = entry.path, .contents = contents, .type = facts.st_mode & S_IFMT, .uid = facts.st_uid, .gid = facts.st_gid, .device = 0, .target = {}};
    if (S_ISCHR(facts.st_mode) || S_ISBLK(facts.st_mode)) node.device = facts.st_rdev;
    if (S_ISLNK(facts.st_mode)) {
      node.target.resize(static_cast<std::size_t>(facts.st_size) + 1);
      const ssize_t size = readlinkat(entry.directory->get(), entry.name.c_str(), node.target.data(), node.target.size());
      if (size <= 0) return failed(size < 0 ? errno : EIO, entry.path);
      node.target.resize(static_cast<std::size_t>(size));
    }
    return StreamRecord(std::move(node));
  });
}

// A regular file or a directory. Of others none: opening them may do something.
Result<Fd> Sender::open_entry(const Entry& entry) {
  if (!S_ISREG(entry.facts.st_mode) && !S_ISDIR(entry.facts.st_mode)) return Fd();
  Fd file(openat(entry.directory->get(), entry.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return failed(errno, entry.path);
  return file;
}

// An inode as a whole: of a directory without what is in it.
Result<void> Sender::put_whole(const Entry& entry, Contents contents) {
  LSMFS_TRY(put_node(entry, contents));
  LSMFS_ASSIGN(const Fd file, open_entry(entry));
  if (S_ISREG(entry.facts.st_mode) && contents != Contents::kept) LSMFS_TRY(put_contents(file, entry, 0, static_cast<std::uint64_t>(entry.facts.st_size), false));
  return put_attributes(file, entry);
}

// What it has between the two.
Result<void> Sender::put_contents(const Fd& file, const Entry& entry, std::uint64_t from, std::uint64_t end, bool with_holes) {
  if (is_all_data(entry.facts)) return put_data(file, entry, from, end);
  for (std::uint64_t at = from; at < end;) {
    const off_t found = lseek(file.get(), static_cast<off_t>(at), SEEK_DATA);
    if (found < 0 && errno != ENXIO) return failed(errno, entry.path);
    const std::uint64_t data = found < 0 ? end : std::min(static_cast<std::uint64_t>(found), end);
    if (data > at && with_holes) {
      // To the end of its block: the file may have been longer, and keeps zeros in a block of which not all is a hole.
      LSMFS_TRY(put([&]() -> Result<StreamRecord> { return StreamRecord(HoleRecord{.offset = at, .count = round_up(data, kBlockSize) - at}); }));
    }
    if (data == end) return {};
    const off_t hole = lseek(file.get(), static_cast<off_t>(data), SEEK_HOLE);
    if (hole < 0) return failed(errno, entry.path);
    at = std::min(static_cast<std::uint64_t>(hole), end);
    LSMFS_TRY(put_data(file, entry, data, at));
  }
  return {};
}

// All between the two, in pieces that do not depend on where it begins.
Result<void> Sender::put_data(const Fd& file, const Entry& entry, std::uint64_t from, std::uint64_t end) {
  for (std::uint64_t at = from; at < end;) {
    const std::uint64_t count = std::min(end, round_down(at, kStreamDataMost) + kStreamDataMost) - at;
    LSMFS_TRY(put([&]() -> Result<StreamRecord> {
      DataRecord record{.offset = at, .bytes = std::string(count, '\0')};
      for (std::size_t got = 0; got < count;) {
        const ssize_t more = pread(file.get(), record.bytes.data() + got, count - got, static_cast<off_t>(at + got));
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return failed(more < 0 ? errno : EIO, entry.path);
        got += static_cast<std::size_t>(more);
      }
      return StreamRecord(std::move(record));
    }));
    at += count;
    bytes_ += count;
    if (progress_) progress_(bytes_);
  }
  return {};
}

// Of a file that both have: only what may differ.
Result<void> Sender::put_changed(const Entry& entry, const std::string& old_path, const AskRanges& ask) {
  LSMFS_ASSIGN(const std::vector<FileRange> ranges, ask(old_path, entry.path));
  LSMFS_TRY(put_node(entry, Contents::kept));
  const auto size = static_cast<std::uint64_t>(entry.facts.st_size);
  LSMFS_ASSIGN(const Fd file, open_entry(entry));
  for (const FileRange& range : ranges) {
    if (range.offset < size) LSMFS_TRY(put_contents(file, entry, range.offset, std::min(size, range.offset + range.count), true));
  }
  return put_attributes(file, entry);
}

Result<void> Sender::put_directory(const std::string& path) {
  auto opened = open_beneath(root_, path, O_RDONLY | O_DIRECTORY);
  if (!opened) return failed(opened.error().code, path);
  Entry entry{.path = path, .directory = &*opened, .name = ".", .facts = {}};
  if (fstat(opened->get(), &entry.facts) != 0) return failed(errno, path);
  return put_whole(entry, Contents::kept);
}

Result<void> Sender::put_attributes(const Fd& file, const Entry& entry) {
  const struct stat& facts = entry.facts;
  AttributesRecord record{.mode = facts.st_mode & 07777, .size = 0, .accessed = time_of(facts.st_atim), .modified = time_of(facts.st_mtim), .flags = 0, .xattrs = {}};
  if (S_ISREG(facts.st_mode)) record.size = static_cast<std::uint64_t>(facts.st_size);
  if (file) {
    int flags = 0;
    if (ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0 && errno != ENOTTY) return failed(errno, entry.path);
    record.flags = static_cast<std::uint32_t>(flags) & kStreamFlags & ~kLockingFlags;
    if ((static_cast<std::uint32_t>(flags) & kLockingFlags) != 0) locking_[entry.path] = static_cast<std::uint32_t>(flags) & kStreamFlags;
  }
  const std::string path = file ? std::string() : fmt::format("/proc/self/fd/{}/{}", entry.directory->get(), entry.name);
  auto names = xattr_names([&](char* to, std::size_t size) { return file ? flistxattr(file.get(), to, size) : llistxattr(path.c_str(), to, size); });
  if (!names) return failed(errno, entry.path);
  record.xattrs = *std::move(names);
  for (const std::string& name : record.xattrs) {
    LSMFS_TRY(put([&]() -> Result<StreamRecord> {
      XattrRecord xattr{.name = name, .value = std::string(kXattrSizeMax, '\0')};
      const ssize_t got = file ? fgetxattr(file.get(), name.c_str(), xattr.value.data(), xattr.value.size()) : lgetxattr(path.c_str(), name.c_str(), xattr.value.data(), xattr.value.size());
      if (got < 0) return failed(errno, entry.path);
      xattr.value.resize(static_cast<std::size_t>(got));
      return StreamRecord(std::move(xattr));
    }));
  }
  return put([&]() -> Result<StreamRecord> { return StreamRecord(record); });
}

}  // namespace lsmfs::cli
