#include "cli/layout/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "cli/messages.h"
#include "lsmfs/base.h"

namespace lsmfs::cli {
namespace {

constexpr std::size_t kReadSize = 128 * KiB;

struct CloseListing {
  void operator()(DIR* listing) const { closedir(listing); }
};

struct Entry {
  std::string name;
  unsigned char type;  // of readdir(3)
};

class Walk {
 public:
  explicit Walk(const std::function<bool()>& stop) : stop_(stop), buffer_(kReadSize) {}

  Result<WalkCounts> run(const std::string& path) {
    Fd root(open_here(AT_FDCWD, path.c_str(), 0));
    struct stat facts {};
    if (!root || fstat(root.get(), &facts) != 0) return make_error(errno, explain(path, make_error(errno, path)));
    if (S_ISREG(facts.st_mode)) {
      LSMFS_TRY(read_file(root.get(), path));
    } else if (S_ISDIR(facts.st_mode)) {
      LSMFS_TRY(read_directory(std::move(root), path));
    } else {
      return make_error(EINVAL, path + ": is neither a directory nor a regular file");
    }
    return std::move(counts_);
  }

 private:
  // O_NONBLOCK: not to wait for who writes to a fifo.
  static int open_here(int folder, const char* name, std::uint64_t resolve) {
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOATIME;
    how.resolve = resolve;
    if (resolve != 0) how.flags |= O_NOFOLLOW;
    int fd = static_cast<int>(syscall(SYS_openat2, folder, name, &how, sizeof how));
    if (fd < 0 && errno == EPERM) {  // a file system that knows other owners
      how.flags &= ~static_cast<std::uint64_t>(O_NOATIME);
      fd = static_cast<int>(syscall(SYS_openat2, folder, name, &how, sizeof how));
    }
    return fd;
  }

  // `code`: errno.
  void failed(const std::string& path, int code) {
    if (code == ENOENT || code == EXDEV || code == ELOOP) return;  // went meanwhile; another mount; a symbolic link by now
    if (counts_.failures++ == 0) counts_.first_failure = make_error(code, path).message();
  }

  Result<void> read_directory(Fd folder, const std::string& path) {
    ++counts_.directories;
    const int fd = folder.get();
    const std::unique_ptr<DIR, CloseListing> listing(fdopendir(fd));
    if (!listing) {
      failed(path, errno);
      return {};
    }
    (void)folder.release();
    std::vector<Entry> entries;
    errno = 0;
    while (const dirent* entry = readdir(listing.get())) {
      const std::string_view name = entry->d_name;
      const bool interesting = entry->d_type == DT_REG || entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN;
      if (name != "." && name != ".." && interesting) entries.push_back({std::string(name), entry->d_type});
      errno = 0;
    }
    if (errno != 0) failed(path, errno);
    for (const Entry& entry : entries) LSMFS_TRY(read_entry(fd, entry, path));
    return {};
  }

  Result<void> read_entry(int folder, const Entry& entry, const std::string& folder_path) {
    if (stop_()) return make_error(EINTR, folder_path);
    const std::string path = folder_path + (folder_path.ends_with('/') ? "" : "/") + entry.name;
    unsigned char type = entry.type;
    struct stat facts {};
    if (type == DT_UNKNOWN) {  // a device must not even be opened
      if (fstatat(folder, entry.name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return (failed(path, errno), Result<void>());
      type = IFTODT(facts.st_mode);
    }
    if (type != DT_REG && type != DT_DIR) return {};
    Fd opened(open_here(folder, entry.name.c_str(), RESOLVE_NO_XDEV));
    if (!opened) {
      failed(path, errno);
      return {};
    }
    return type == DT_DIR ? read_directory(std::move(opened), path) : read_file(opened.get(), path);
  }

  Result<void> read_file(int fd, const std::string& path) {
    ++counts_.files;
    struct stat facts {};
    // As grep does, it passes over holes, which may be larger than any disk.
    const bool sparse = fstat(fd, &facts) == 0 && facts.st_blocks * 512 < facts.st_size;
    for (off_t at = 0; true;) {
      if (stop_()) return make_error(EINTR, path);
      const ssize_t got = read(fd, buffer_.data(), buffer_.size());
      if (got < 0) failed(path, errno);
      if (got <= 0) return {};
      counts_.bytes = counts_.bytes + ByteCount{static_cast<std::uint64_t>(got)};
      at += got;
      if (!sparse) continue;
      at = lseek(fd, at, SEEK_DATA);
      if (at < 0) return {};  // no more data
    }
  }

  const std::function<bool()>& stop_;
  std::vector<char> buffer_;
  WalkCounts counts_;
};

// Each directory on the way down stays open.
void allow_many_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Result<WalkCounts> read_tree(const std::string& path, const std::function<bool()>& stop) {
  allow_many_files();
  return Walk(stop).run(path);
}

}  // namespace lsmfs::cli
