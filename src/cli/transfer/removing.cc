#include "cli/transfer/removing.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "cli/transfer/records.h"
#include "lsmfs/control.h"

namespace lsmfs::cli {
namespace {

std::vector<std::string> listed(int directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(fdopendir(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), closedir);
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

// Nothing is followed.
Result<std::uint32_t> unlock_named(const Fd& directory, const std::string& name) {
  struct stat facts {};
  if (fstatat(directory.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0 || (!S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode))) return 0;
  const Fd file(openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return 0;
  return unlock(file);
}

// Whatever is no directory. False: errno says why not.
bool remove_file(const Fd& directory, const std::string& name) {
  const auto attempt = [&] { return unlinkat(directory.get(), name.c_str(), 0) == 0; };
  return attempt() || (errno == EPERM && unlock_both(directory, name) && attempt());
}

// One by one, by a way up and down again, so that few descriptors are open however deep it is.
Result<void> remove_one_by_one(const Fd& directory, const std::string& name) {
  struct Level {
    Fd above;
    std::string name;
    std::vector<std::string> left;
  };
  constexpr std::size_t kDeepest = 400;
  std::vector<Level> way;
  const auto enter = [&way](Fd above, const std::string& below) -> Result<void> {
    if (way.size() >= kDeepest) return make_error(ENAMETOOLONG, below);
    if (const auto unlocked = unlock_named(above, below); !unlocked && unlocked.error().code != EPERM) return unlocked.error();
    (void)fchmodat(above.get(), below.c_str(), 0700, 0);
    const Fd fd(openat(above.get(), below.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return make_error(errno, below);
    way.push_back({std::move(above), below, listed(fd.get())});
    return {};
  };
  LSMFS_TRY(enter(Fd(openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)), name));
  while (!way.empty()) {
    Level& level = way.back();
    if (level.left.empty()) {
      if (unlinkat(level.above.get(), level.name.c_str(), AT_REMOVEDIR) != 0) return make_error(errno, level.name);
      way.pop_back();
      continue;
    }
    const std::string below = std::move(level.left.back());
    level.left.pop_back();
    Fd here(openat(level.above.get(), level.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!here) return make_error(errno, level.name);
    struct stat facts {};
    if (fstatat(here.get(), below.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return make_error(errno, below);
    if (S_ISDIR(facts.st_mode)) {
      LSMFS_TRY(enter(std::move(here), below));
      continue;
    }
    if (!remove_file(here, below)) return make_error(errno, below);
  }
  return {};
}

}  // namespace

Result<std::uint32_t> unlock(const Fd& file) {
  int flags = 0;
  if (ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0) return 0;
  const auto had = static_cast<std::uint32_t>(flags);
  flags &= ~static_cast<int>(kLockingFlags);
  if ((had & kLockingFlags) != 0 && ioctl(file.get(), FS_IOC_SETFLAGS, &flags) != 0) return make_error(errno, "flags");
  return had;
}

bool unlock_both(const Fd& directory, const std::string& name) {
  const auto above = unlock(directory), itself = unlock_named(directory, name);
  errno = !above ? above.error().code : !itself ? itself.error().code : EPERM;
  return above && itself && ((*above | *itself) & kLockingFlags) != 0;
}

Result<void> remove_all(const Fd& directory, const std::string& name) {
  struct stat facts {};
  if (fstatat(directory.get(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? Result<void>() : make_error(errno, name);
  if (S_ISDIR(facts.st_mode)) {
    if (remove_tree_of_mount(fmt::format("/proc/self/fd/{}/{}", directory.get(), name))) return {};
    if (const auto unlocked = unlock(directory); !unlocked) return make_error(unlocked.error().code, name);
    return remove_one_by_one(directory, name);
  }
  return remove_file(directory, name) || errno == ENOENT ? Result<void>() : make_error(errno, name);
}

}  // namespace lsmfs::cli
